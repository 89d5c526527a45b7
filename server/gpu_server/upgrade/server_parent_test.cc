#include "server/gpu_server/upgrade/server_parent.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace warpline::server {
namespace {

constexpr char kFirst[] = "a starts upgrade=0 rolled_back=0 count=0 text=\na serves\n";

// The program is a file that the tests exchange for another version's.
class ServerParentTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "/parentXXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    options_.program = folder_ + "/server";
    options_.first_pause = absl::Milliseconds(1);
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    // Those that the test before has sent too many.
    const timespec none = {};
    while (sigtimedwait(&set, nullptr, &none) > 0) {
    }
  }
  void TearDown() override {
    if (thread_.joinable()) {
      EXPECT_EQ(End(), 5) << Log();
    }
    std::filesystem::remove_all(folder_);
  }

  void Install(const std::string& name, const std::string& mood = "") {
    const std::string next = folder_ + "/next";
    std::ofstream(next) << "#!/bin/sh\nexec " << Fake() << " " << folder_ << "/log " << name << " "
                        << mood << " \"$@\"\n";
    ASSERT_EQ(chmod(next.c_str(), 0755), 0);
    std::filesystem::rename(next, options_.program);
  }
  static std::string Fake() {
    return std::filesystem::absolute("server/gpu_server/upgrade/fake_server");
  }
  void Begin() {
    thread_ = std::thread([this] { exit_code_ = ServerParent(options_).Run(); });
  }
  // Begins with the version "a", and waits until it serves.
  void BeginFirst(const std::string& mood = "") {
    Install("a", mood);
    Begin();
    Await(kFirst);
  }
  // Tells the parent to end while the version "b" does not become ready.
  void EndDuringAnUpgrade() {
    BeginFirst();
    Install("b", "hangs");
    Upgrade();
    Await("b starts upgrade=1");
    kill(getpid(), SIGTERM);
  }
  int Wait() {
    thread_.join();
    return exit_code_;
  }
  int End() {
    kill(getpid(), SIGTERM);
    return Wait();
  }
  static void Upgrade() { kill(getpid(), SIGHUP); }

  std::string Log() {
    std::stringstream text;
    text << std::ifstream(folder_ + "/log").rdbuf();
    return text.str();
  }
  int Count(const std::string& text) {
    const std::string log = Log();
    int count = 0;
    for (size_t at = 0; (at = log.find(text, at)) != std::string::npos; ++at) ++count;
    return count;
  }
  void KillTheHangingOne() {
    Await("hangs pid=");
    const std::string log = Log();
    kill(std::atoi(log.c_str() + log.rfind("hangs pid=") + 10), SIGKILL);
  }
  // Waits until the log has these lines.
  void Await(const std::string& lines) {
    while (!absl::StrContains(Log(), lines)) absl::SleepFor(absl::Milliseconds(2));
  }

  std::string folder_;
  ServerParentOptions options_;
  std::thread thread_;
  int exit_code_ = -1;
};

TEST_F(ServerParentTest, PassesOnWhatWasKept) {
  BeginFirst();
  for (int i = 1; i <= 5; ++i) {
    Upgrade();
    Await(
        absl::StrCat("a starts upgrade=1 rolled_back=0 count=", i, " text=as it was\na serves\n"));
  }
  Install("b");
  Upgrade();
  Await("b starts upgrade=1 rolled_back=0 count=6 text=as it was\nb serves\n");
}

TEST_F(ServerParentTest, StartsTheFormerProgramWhereTheNextOneDoesNot) {
  options_.trial_limit = absl::Milliseconds(500);
  BeginFirst();
  // The former program lies elsewhere.
  int count = 0;
  for (const char* mood : {"ends", "hangs"}) {
    ++count;
    Install("b", mood);
    Upgrade();
    Await(absl::StrCat("b starts upgrade=1 rolled_back=0 count=", count));
    // It is the same file here, so that it fails once more before it is mended.
    Await(absl::StrCat("b starts upgrade=1 rolled_back=1 count=", count));
    Install("a");
    if (std::string(mood) == "hangs") KillTheHangingOne();
    Await(absl::StrCat("a starts upgrade=1 rolled_back=1 count=", count,
                       " text=as it was\na serves\n"));
  }
  Upgrade();
  Await("a starts upgrade=1 rolled_back=0 count=3 text=as it was\na serves\n");
}

TEST_F(ServerParentTest, GoesOnWithWhatWasKeptWhenTheServerEndsAmidst) {
  BeginFirst("ends_in_pass_on");
  Install("b");
  Upgrade();
  Await("b starts upgrade=1 rolled_back=1 count=1 text=as it was\nb serves\n");
}

TEST_F(ServerParentTest, AServerThatHasPassedOnEverythingIsNotWaitedForForever) {
  options_.trial_limit = absl::Milliseconds(500);
  BeginFirst("stays_behind");
  Install("b");
  Upgrade();
  Await("b starts upgrade=1 rolled_back=0 count=1 text=as it was\nb serves\n");
}

TEST_F(ServerParentTest, AServerStaysWhereNotAllWasKept) {
  BeginFirst("cannot_keep");
  Upgrade();
  while (Count("a stays") < 2) {
    // Refused while the one before is under way.
    Upgrade();
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_FALSE(absl::StrContains(Log(), "upgrade=1"));
}

TEST_F(ServerParentTest, ChecksTheProgramFirst) {
  options_.check_limit = absl::Milliseconds(200);
  BeginFirst();
  for (const char* mood : {"hangs_in_check", "ends_in_check"}) {
    Install(mood, mood);
    while (!absl::StrContains(Log(), absl::StrCat(mood, " is checked"))) {
      // Refused while a check is under way.
      Upgrade();
      absl::SleepFor(absl::Milliseconds(20));
    }
  }
  std::filesystem::remove(options_.program);
  Upgrade();
  Install("c");
  constexpr char kLast[] = "c starts upgrade=1 rolled_back=0 count=1 text=as it was\nc serves\n";
  while (!absl::StrContains(Log(), kLast)) {
    Upgrade();
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_FALSE(absl::StrContains(Log(), "check starts"));
}

TEST_F(ServerParentTest, GivesUpAfterSomeTries) {
  options_.most_rollbacks = 3;
  BeginFirst();
  Install("b", "ends");
  Upgrade();
  EXPECT_EQ(Wait(), 1);
  EXPECT_EQ(Count("b starts"), 1 + 1 + 3);
}

TEST_F(ServerParentTest, HasTheServersExitCode) {
  Install("a", "ends");
  Begin();
  EXPECT_EQ(Wait(), 7);
  std::filesystem::remove(options_.program);
  Begin();
  EXPECT_EQ(Wait(), 1);
}

TEST_F(ServerParentTest, EndsAfterAnUpgradeThatIsUnderWay) {
  EndDuringAnUpgrade();
  Install("c");
  // It would otherwise wait for the limit.
  KillTheHangingOne();
  EXPECT_EQ(Wait(), 5);
  EXPECT_TRUE(absl::StrContains(Log(), "c starts upgrade=1 rolled_back=1 count=1"));
}

TEST_F(ServerParentTest, ASecondSignalEndsItAtOnce) {
  EndDuringAnUpgrade();
  // Another signal, since one that is pending already would be the same.
  kill(getpid(), SIGINT);
  EXPECT_EQ(Wait(), 1);
}

}  // namespace
}  // namespace warpline::server
