// Tests the daemon's life with a stand-in for NVIDIA's program.
#include "server/mps/daemon.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "server/mps/testing/fake_control.h"

namespace warpline::mps {
namespace {

class DaemonTest : public testing::Test {
 protected:
  DaemonOptions Options(const std::string& how = "control") {
    const std::string control = InstallFakeControl(programs_.path(), how);
    return {.control = control, .folder = place_.path()};
  }
  std::string pipes() const { return place_.path() + "/pipe"; }

  const TestFolder programs_;
  const TestFolder place_;
};

TEST_F(DaemonTest, ItTakesClientsOnceItHasStarted) {
  Daemon daemon(Options());
  ASSERT_TRUE(daemon.Start().ok());
  EXPECT_EQ(access((pipes() + "/control").c_str(), F_OK), 0);
  EXPECT_FALSE(daemon.Ended());
  struct stat folder = {};
  ASSERT_EQ(stat(pipes().c_str(), &folder), 0);
  EXPECT_EQ(folder.st_mode & 0777, 0700u);
}

TEST_F(DaemonTest, NothingIsLeftWhenItIsStopped) {
  const DaemonOptions options = Options();
  Daemon daemon(options);
  ASSERT_TRUE(daemon.Start().ok());
  const pid_t process = DaemonOf(pipes());
  const pid_t server = daemon.StartServer(getuid());
  EXPECT_EQ(server, AskFakeControl(options.control, pipes(), "get_server_list"));
  ASSERT_TRUE(IsRunning(process));
  ASSERT_TRUE(IsRunning(server));
  daemon.Stop();
  EXPECT_FALSE(IsRunning(process));
  EXPECT_FALSE(IsRunning(server));
  EXPECT_EQ(place_.List(), "");
}

TEST_F(DaemonTest, WhatItHasStartedEndsThoughItWasKilled) {
  const DaemonOptions options = Options();
  Daemon daemon(options);
  ASSERT_TRUE(daemon.Start().ok());
  const pid_t server = daemon.StartServer(getuid());
  ASSERT_GT(server, 0);
  kill(DaemonOf(pipes()), SIGKILL);
  while (!daemon.Ended()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(IsRunning(server));
  daemon.Stop();
  EXPECT_FALSE(IsRunning(server));
}

TEST_F(DaemonTest, WhatItSaidIsTheReasonWhenItEnds) {
  Daemon daemon(Options("dies"));
  const absl::Status started = daemon.Start();
  EXPECT_TRUE(absl::IsUnavailable(started)) << started;
  EXPECT_TRUE(absl::StrContains(started.message(), "already running")) << started;
}

TEST_F(DaemonTest, OneThatDoesNotAnswerIsEnded) {
  DaemonOptions options = Options("silent");
  options.start_timeout = absl::Milliseconds(1);
  Daemon daemon(options);
  EXPECT_TRUE(absl::IsDeadlineExceeded(daemon.Start()));
  daemon.Stop();
  EXPECT_TRUE(daemon.Ended());
}

TEST_F(DaemonTest, OneThatDoesNotQuitIsKilled) {
  DaemonOptions options = Options("deaf");
  options.quit_timeout = absl::ZeroDuration();
  Daemon daemon(options);
  ASSERT_TRUE(daemon.Start().ok());
  const pid_t process = DaemonOf(pipes());
  daemon.Stop();
  EXPECT_FALSE(IsRunning(process));
}

TEST_F(DaemonTest, AProgramThatIsNotThereIsAnError) {
  Daemon daemon({.control = "/nonexistent", .folder = place_.path()});
  EXPECT_TRUE(absl::IsUnavailable(daemon.Start()));
}

}  // namespace
}  // namespace warpline::mps
