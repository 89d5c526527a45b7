#include "tools/cli/process_family.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/process_status.h"
#include "gtest/gtest.h"

namespace warpline::cli {
namespace {

// A child that has a child, both of which wait to be killed.
class Generations {
 public:
  Generations() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    child_ = fork();
    if (child_ == 0) {
      const pid_t grandchild = fork();
      if (grandchild == 0) Wait();
      (void)!write(ends[1], &grandchild, sizeof(grandchild));
      Wait();
    }
    EXPECT_EQ(read(ends[0], &grandchild_, sizeof(grandchild_)),
              static_cast<ssize_t>(sizeof(grandchild_)));
    close(ends[0]);
    close(ends[1]);
  }
  ~Generations() {
    EndChild();
    kill(grandchild_, SIGKILL);
  }

  void EndChild() {
    if (child_ == 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = 0;
  }
  // It is not this process's child, so its end takes its time to be seen.
  void EndGrandchild() const { kill(grandchild_, SIGKILL); }

  pid_t child() const { return child_; }
  pid_t grandchild() const { return grandchild_; }

 private:
  [[noreturn]] static void Wait() {
    while (true) pause();
  }

  pid_t child_ = 0;
  pid_t grandchild_ = 0;
};

std::vector<pid_t> PidsOf(const ProcessFamily& family) {
  std::vector<pid_t> pids;
  for (const FamilyMember& member : family.members()) pids.push_back(member.pid);
  std::sort(pids.begin(), pids.end());
  return pids;
}

// The word of Text() that is about `pid`.
std::string TextOf(const ProcessFamily& family, pid_t pid) {
  for (const std::string& word : family.Text()) {
    if (word.substr(0, word.find(':')) == std::to_string(pid)) return word;
  }
  return "";
}

char StateOf(pid_t pid) {
  const auto status = ReadProcessStatus(pid);
  return status.has_value() ? status->state : '?';
}

std::vector<pid_t> Sorted(std::vector<pid_t> pids) {
  std::sort(pids.begin(), pids.end());
  return pids;
}

TEST(ProcessFamilyTest, HasAllDescendants) {
  const Generations generations;
  const ProcessFamily family = ProcessFamily::Of(getpid());
  EXPECT_EQ(PidsOf(family), Sorted({generations.child(), generations.grandchild()}));
  EXPECT_NE(family.members()[0].name, "");
}

TEST(ProcessFamilyTest, LeavesOthersAndTheirDescendantsOut) {
  const Generations others;
  auto child_alone = ProcessFamily::Parse({TextOf(ProcessFamily::Of(getpid()), others.child())});
  ASSERT_TRUE(child_alone.ok()) << child_alone.status();
  EXPECT_TRUE(ProcessFamily::Of(getpid(), *child_alone).members().empty());
  const Generations generations;
  EXPECT_EQ(PidsOf(ProcessFamily::Of(getpid(), *child_alone)),
            Sorted({generations.child(), generations.grandchild()}));
}

TEST(ProcessFamilyTest, AProcessRunsOnAfterItsMainThread) {
  const pid_t child = fork();
  if (child == 0) {
    std::thread([] {
      while (true) pause();
    }).detach();
    // pthread_exit() would unwind the test.
    syscall(SYS_exit, 0);
  }
  while (StateOf(child) != 'Z') usleep(1000);
  ProcessFamily family = ProcessFamily::Of(getpid());
  EXPECT_EQ(PidsOf(family), std::vector<pid_t>{child});
  EXPECT_TRUE(family.Look());
  kill(child, SIGKILL);
  // It stays a zombie until it is waited for.
  siginfo_t info;
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(family.Look());
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(ProcessFamilyTest, OrphansRemainMembers) {
  Generations generations;
  ProcessFamily family = ProcessFamily::Of(getpid());
  generations.EndChild();
  EXPECT_TRUE(family.Look());
  EXPECT_EQ(PidsOf(family), std::vector<pid_t>{generations.grandchild()});
  generations.EndGrandchild();
  while (family.Look()) usleep(1000);
  EXPECT_TRUE(family.members().empty());
}

TEST(ProcessFamilyTest, WhatAMemberStartsBecomesOne) {
  const Generations generations;
  const uint64_t started = ProcessFamily::Of(getpid()).members()[0].started;
  auto family = ProcessFamily::Parse(ProcessFamily::Of(getpid()).Text());
  ASSERT_TRUE(family.ok()) << family.status();
  EXPECT_EQ(PidsOf(*family), Sorted({generations.child(), generations.grandchild()}));
  auto child = ProcessFamily::Parse({TextOf(ProcessFamily::Of(getpid()), generations.child())});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_TRUE(child->Look());
  EXPECT_EQ(PidsOf(*child), Sorted({generations.child(), generations.grandchild()}));
  EXPECT_NE(started, 0u);
}

TEST(ProcessFamilyTest, ALaterProcessOfTheSameNumberIsNoMember) {
  const Generations generations;
  auto family = ProcessFamily::Parse({std::to_string(generations.child()) + ":1"});
  ASSERT_TRUE(family.ok()) << family.status();
  EXPECT_FALSE(family->Look());
}

TEST(ProcessFamilyTest, WordsThatAreNoProcessesAreRefused) {
  for (const char* word : {"", "1", "1:", ":1", "x:1", "1:x", "-1:1", "0:1", "1:2:3"}) {
    EXPECT_EQ(ProcessFamily::Parse({word}).status().code(), absl::StatusCode::kInvalidArgument)
        << word;
  }
}

}  // namespace
}  // namespace warpline::cli
