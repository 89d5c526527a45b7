#include "tools/cli/child.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

// Long enough to be no matter where something else ends the wait.
constexpr absl::Duration kVeryLong = absl::Hours(100);
// Over by the time that it is looked for again.
constexpr absl::Duration kMoment = absl::Milliseconds(1);
constexpr char kLeavesOne[] = "sleep 1000 >/dev/null 2>&1 &";

class ChildTest : public testing::Test {
 protected:
  ChildTest() : mask_(BlockForwardedSignals()) { AdoptOrphans(); }

  // No process and no signal comes into another test.
  ~ChildTest() override {
    const ProcessFamily left = ProcessFamily::Of(getpid());
    for (const FamilyMember& member : left.members()) {
      kill(member.pid, SIGKILL);
    }
    while (waitpid(-1, nullptr, 0) > 0) {
    }
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGCHLD}) {
      signal(number, SIG_IGN);  // Takes what is pending away.
      signal(number, SIG_DFL);
    }
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }

  // Runs a shell's command to its end. The command finds this process as $PPID.
  ChildEnd EndOf(const std::string& command) {
    const auto child = StartChild("/bin/sh", {"sh", "-c", command}, mask_);
    EXPECT_TRUE(child.ok()) << child.status();
    return child.ok() ? WaitForChild(*child) : ChildEnd();
  }

  const sigset_t mask_;
};

// A command that has `warpline run` send it a signal, and takes it as `action` says.
std::string Takes(const std::string& signal, const std::string& action) {
  return "trap '" + action + "' " + signal + "; kill -" + signal + " $PPID; " +
         "while :; do sleep 0.01; done";
}

TEST_F(ChildTest, EndsAsItsProgramEnds) {
  for (const auto& [command, code] : std::vector<std::pair<std::string, int>>{
           {"exit 7", 7}, {"kill -KILL $$", 128 + SIGKILL}, {"kill -HUP $$", 128 + SIGHUP}}) {
    const ChildEnd end = EndOf(command);
    EXPECT_EQ(end.code, code) << command;
    EXPECT_FALSE(end.told_to_end) << command;
  }
}

TEST_F(ChildTest, WhatASignalEndsWasToldToEnd) {
  for (const char* const name : {"TERM", "INT", "QUIT"}) {
    EXPECT_TRUE(EndOf(std::string("kill -") + name + " $$").told_to_end) << name;
  }
  EXPECT_TRUE(EndOf("exit 143").told_to_end);
  EXPECT_TRUE(EndOf(Takes("INT", "exit 130")).told_to_end);
}

TEST_F(ChildTest, SigtermCountsHoweverTheProgramTakesIt) {
  const ChildEnd end = EndOf(Takes("TERM", "exit 3"));
  EXPECT_EQ(end.code, 3);
  EXPECT_TRUE(end.told_to_end);
}

TEST_F(ChildTest, AnInterruptThatTheProgramOutlivesIsNoEnd) {
  for (const char* const name : {"INT", "QUIT", "HUP"}) {
    const ChildEnd end = EndOf(Takes(name, "exit 4"));
    EXPECT_EQ(end.code, 4) << name;
    EXPECT_FALSE(end.told_to_end) << name;
  }
}

TEST_F(ChildTest, ASignalThatWasInheritedAsIgnoredIsNoEnd) {
  signal(SIGTERM, SIG_IGN);
  const ChildEnd end = EndOf("kill -TERM $PPID; " + Takes("USR1", "exit 5"));
  EXPECT_EQ(end.code, 5);
  EXPECT_FALSE(end.told_to_end);
}

TEST_F(ChildTest, OrphansGetTimeToEnd) {
  EXPECT_EQ(EndOf("sleep 0.01 >/dev/null 2>&1 &").code, 0);
  const Orphans orphans = WaitForOrphans(kVeryLong, {});
  EXPECT_TRUE(orphans.running.members().empty());
  EXPECT_FALSE(orphans.told_to_end);
}

TEST_F(ChildTest, OrphansThatGoOnAreFound) {
  EXPECT_EQ(EndOf(kLeavesOne).code, 0);
  // Those signals end no wait.
  kill(getpid(), SIGUSR1);
  kill(getpid(), SIGHUP);
  signal(SIGINT, SIG_IGN);
  kill(getpid(), SIGINT);
  const Orphans orphans = WaitForOrphans(kMoment, {});
  EXPECT_EQ(orphans.running.members().size(), 1u);
  EXPECT_FALSE(orphans.told_to_end);
}

TEST_F(ChildTest, ASignalEndsTheWaitForOrphans) {
  for (const int number : {SIGTERM, SIGINT, SIGQUIT}) {
    EXPECT_EQ(EndOf(kLeavesOne).code, 0);
    kill(getpid(), number);
    const Orphans orphans = WaitForOrphans(kVeryLong, {});
    EXPECT_FALSE(orphans.running.members().empty());
    EXPECT_TRUE(orphans.told_to_end);
  }
}

TEST_F(ChildTest, ChildrenFromBeforeAreNoOrphans) {
  const auto before = StartChild("/bin/sleep", {"sleep", "1000"}, mask_);
  ASSERT_TRUE(before.ok()) << before.status();
  const ProcessFamily others = ProcessFamily::Of(getpid());
  EXPECT_EQ(EndOf("true").code, 0);
  EXPECT_TRUE(WaitForOrphans(kVeryLong, others).running.members().empty());
  EXPECT_EQ(EndOf(kLeavesOne).code, 0);
  const Orphans orphans = WaitForOrphans(kMoment, others);
  ASSERT_EQ(orphans.running.members().size(), 1u);
  EXPECT_NE(orphans.running.members()[0].pid, *before);
}

}  // namespace
}  // namespace warpline::cli
