#include "server/jail/cgroups.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace warpline::jail {
namespace {

namespace fs = std::filesystem;

// A folder that looks as a cgroup v2 file system does, in which the test's process is in /own.
class CgroupsTest : public testing::Test {
 protected:
  CgroupsTest() {
    fs::remove_all(root_);
    fs::create_directories(group_);
    fs::create_directories(root_ + "/proc/self");
    Put(root_ + "/proc/self/cgroup", "4:memory:/old\n0::/own\n");
    Put(group_ + "/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n");
    Put(group_ + "/cgroup.subtree_control", "");
    Put(group_ + "/cgroup.procs", absl::StrCat(getpid(), "\n"));
    // What the kernel makes in a new group.
    MakeGroup(group_ + "/server");
  }

  static void Put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  static std::string Get(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void MakeGroup(const std::string& folder) {
    fs::create_directories(folder);
    for (const char* file :
         {"cgroup.procs", "memory.max", "memory.oom.group", "pids.max", "cpu.weight"}) {
      Put(absl::StrCat(folder, "/", file), "");
    }
  }

  const std::string root_ = testing::TempDir() + "/cgroups";
  const std::string group_ = root_ + "/sys/fs/cgroup/own";
};

TEST_F(CgroupsTest, TheServerMovesDownAndGivesControllersOn) {
  auto groups = Cgroups::ManageOwn(0, root_);
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_EQ((*groups)->controllers(), "memory cpu pids");
  EXPECT_EQ(Get(group_ + "/server/cgroup.procs"), absl::StrCat(getpid()));
  EXPECT_NE(Get(group_ + "/cgroup.subtree_control"), "");
}

TEST_F(CgroupsTest, AGroupHasItsLimits) {
  auto groups = Cgroups::ManageOwn(0, root_);
  ASSERT_TRUE(groups.ok()) << groups.status();
  MakeGroup(group_ + "/worker.1");
  auto group = (*groups)->NewGroup("worker.1", {.memory_bytes = 1 << 30, .tasks = 77});
  ASSERT_TRUE(group.ok()) << group.status();
  ASSERT_TRUE((*group)->Add(4711).ok());
  EXPECT_EQ(Get(group_ + "/worker.1/memory.max"), "1073741824");
  EXPECT_EQ(Get(group_ + "/worker.1/memory.oom.group"), "1");
  EXPECT_EQ(Get(group_ + "/worker.1/pids.max"), "77");
  EXPECT_EQ(Get(group_ + "/worker.1/cpu.weight"), "100");
  EXPECT_EQ(Get(group_ + "/worker.1/cgroup.procs"), "4711");
}

TEST_F(CgroupsTest, WithoutAControllerItsLimitIsLeftOut) {
  Put(group_ + "/cgroup.controllers", "pids\n");
  auto groups = Cgroups::Manage(group_);
  ASSERT_TRUE(groups.ok()) << groups.status();
  MakeGroup(group_ + "/worker.1");
  ASSERT_TRUE((*groups)->NewGroup("worker.1", {.memory_bytes = 1 << 30, .tasks = 77}).ok());
  EXPECT_EQ(Get(group_ + "/worker.1/memory.max"), "");
  EXPECT_EQ(Get(group_ + "/worker.1/pids.max"), "77");
}

TEST_F(CgroupsTest, AGroupWithOthersInItIsNotTakenOver) {
  Put(group_ + "/cgroup.procs", absl::StrCat("1\n", getpid(), "\n"));
  EXPECT_EQ(Cgroups::ManageOwn(0, root_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CgroupsTest, ACompanionMovesAlong) {
  Put(group_ + "/cgroup.procs", absl::StrCat("4711\n", getpid(), "\n"));
  EXPECT_EQ(Cgroups::ManageOwn(4712, root_).status().code(), absl::StatusCode::kFailedPrecondition);
  const auto groups = Cgroups::ManageOwn(4711, root_);
  ASSERT_TRUE(groups.ok()) << groups.status();
  // The last one that was written.
  EXPECT_EQ(Get(group_ + "/server/cgroup.procs"), "4711");
  EXPECT_EQ((*groups)->folder(), group_);
}

TEST_F(CgroupsTest, TheFirstVersionIsNotEnough) {
  Put(root_ + "/proc/self/cgroup", "4:memory:/old\n");
  EXPECT_EQ(Cgroups::ManageOwn(0, root_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CgroupsTest, WithoutControllersThereIsNothingToManage) {
  Put(group_ + "/cgroup.controllers", "hugetlb\n");
  EXPECT_EQ(Cgroups::Manage(group_).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace warpline::jail
