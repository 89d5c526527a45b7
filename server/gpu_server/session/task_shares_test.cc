#include "server/gpu_server/session/task_shares.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::server {
namespace {

namespace fs = std::filesystem;

TEST(TaskSharesTest, SessionsTogetherLeaveTheServerItsTasks) {
  for (const uint64_t tasks : {2500u, 4096u, 9000u, 32768u}) {
    TaskShares shares({.tasks = tasks, .max_sessions = 64});
    EXPECT_TRUE(shares.suffices());
    std::vector<TaskShares::Share> taken;
    uint64_t used = 0;
    for (int i = 0; i < 64; ++i) {
      taken.push_back(shares.Take());
      EXPECT_GE(taken.back().streams(), shares.sure_streams());
      used += 24 + taken.back().streams();
    }
    EXPECT_LE(used + 256 + 16, tasks) << tasks;
  }
}

TEST(TaskSharesTest, KeepersAndWarmWorkersAreTasksToo) {
  TaskShares one({.tasks = 4096, .max_sessions = 16});
  TaskShares eight({.tasks = 4096, .max_sessions = 16, .devices = 8, .warm_workers = 4});
  uint64_t used = 0;
  std::vector<TaskShares::Share> taken;
  for (int i = 0; i < 16; ++i) {
    taken.push_back(eight.Take());
    used += 24 + taken.back().streams();
  }
  EXPECT_LE(used + 256 + uint64_t{8} * (16 + 4 * 24), 4096u);
  EXPECT_GT(one.Take().streams(), eight.sure_streams());
}

TEST(TaskSharesTest, ASystemWithoutABoundGivesEverySessionAllStreams) {
  TaskShares shares({.tasks = 1 << 20, .max_sessions = 64});
  std::vector<TaskShares::Share> taken;
  for (int i = 0; i < 64; ++i) {
    taken.push_back(shares.Take());
    EXPECT_EQ(taken.back().streams(), TaskShares::kMostStreams);
  }
}

TEST(TaskSharesTest, WhatASessionHadGoesToTheNext) {
  TaskShares shares({.tasks = 4096, .max_sessions = 64});
  uint64_t first;
  {
    const TaskShares::Share share = shares.Take();
    first = share.streams();
    EXPECT_GT(first, shares.sure_streams());
    EXPECT_LT(shares.Take().streams(), first);
  }
  TaskShares::Share moved = shares.Take();
  EXPECT_EQ(moved.streams(), first);
  moved = TaskShares::Share();
  EXPECT_EQ(shares.Take().streams(), first);
}

TEST(TaskSharesTest, TooFewTasksAreSaidToBeTooFew) {
  TaskShares shares({.tasks = 500, .max_sessions = 64});
  EXPECT_FALSE(shares.suffices());
  EXPECT_EQ(shares.Take().streams(), 8u);
  EXPECT_TRUE(TaskShares({.tasks = 500, .max_sessions = 4}).suffices());
  EXPECT_FALSE(TaskShares({.tasks = 0, .max_sessions = 0}).suffices());
}

TEST(TaskSharesTest, StreamsThatTakeTwoTasksAreHalfAsMany) {
  TaskShares one({.tasks = 8192, .max_sessions = 16});
  TaskShares two({.tasks = 8192, .max_sessions = 16, .tasks_per_stream = 2});
  EXPECT_GT(one.Take().streams(), two.Take().streams());
}

class SystemTaskLimitTest : public testing::Test {
 protected:
  SystemTaskLimitTest() : root_(fs::path(testing::TempDir()) / "tasks") {
    fs::remove_all(root_);
    Write("proc/sys/kernel/threads-max", "50000\n");
    Write("proc/sys/kernel/pid_max", "32768\n");
  }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  // Where RLIMIT_NPROC binds whoever runs this, it may be less still.
  void Expect(uint64_t tasks) { EXPECT_LE(SystemTaskLimit(root_), tasks); }
  const fs::path root_;
};

TEST_F(SystemTaskLimitTest, TheKernelsBoundHolds) {
  Expect(32768);
  EXPECT_GT(SystemTaskLimit(root_), 0u);
}

TEST_F(SystemTaskLimitTest, TheTightestControlGroupAboveCounts) {
  Write("proc/self/cgroup", "0::/system.slice/warpline.service\n");
  Write("sys/fs/cgroup/system.slice/pids.max", "400\n");
  Write("sys/fs/cgroup/system.slice/pids.current", "100\n");
  Write("sys/fs/cgroup/system.slice/warpline.service/pids.max", "max\n");
  Write("sys/fs/cgroup/pids.max", "5000\n");
  Expect(300);
}

TEST_F(SystemTaskLimitTest, TheRootOfAContainersNamespaceCounts) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/pids.max", "512\n");
  Write("sys/fs/cgroup/pids.current", "12\n");
  Expect(500);
}

TEST_F(SystemTaskLimitTest, TheFirstVersionOfControlGroupsCounts) {
  Write("proc/self/cgroup", "12:cpu,cpuacct:/x\n7:pids:/docker/1\n");
  Write("sys/fs/cgroup/pids/docker/1/pids.max", "700\n");
  Expect(700);
}

TEST_F(SystemTaskLimitTest, FilesThatSayNothingAreNoBound) {
  Write("proc/self/cgroup", "0::\nnonsense\n0:::::\n");
  Write("sys/fs/cgroup/pids.max", "");
  Write("proc/sys/kernel/threads-max", "many\n");
  EXPECT_GT(SystemTaskLimit(root_), 0u);
  Expect(32768);
}

}  // namespace
}  // namespace warpline::server
