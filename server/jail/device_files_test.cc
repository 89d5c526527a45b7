#include "server/jail/device_files.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::jail {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A tree with the GPUs 0000:04:00.0, which is nvidia1, and 0000:8A:00.0, which is nvidia0.
std::string Tree() {
  const std::string root = testing::TempDir() + "/tree";
  std::filesystem::create_directories(root + "/dev");
  for (const char* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"}) {
    std::ofstream(root + "/dev/" + name) << "";
  }
  const auto add = [&root](const std::string& address, int minor) {
    const std::string folder = root + "/proc/driver/nvidia/gpus/" + address;
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/information")
        << "Model: \t\t NVIDIA H200\nDevice Minor: \t " << minor << "\n";
  };
  add("0000:04:00.0", 1);
  add("0000:8a:00.0", 0);
  return root;
}

TEST(DeviceFilesTest, FindsAGpuByItsAddress) {
  const std::string root = Tree();
  EXPECT_THAT(DeviceFilesOf({"00000000:04:00.0"}, root), ElementsAre(root + "/dev/nvidia1"));
  EXPECT_THAT(DeviceFilesOf({"0000:8A:00.0"}, root), ElementsAre(root + "/dev/nvidia0"));
}

TEST(DeviceFilesTest, AGpuThatTheDriverDoesNotNameHasAll) {
  const std::string root = Tree();
  EXPECT_THAT(DeviceFilesOf({"0000:05:00.0"}, root),
              ElementsAre(root + "/dev/nvidia0", root + "/dev/nvidia1"));
}

TEST(DeviceFilesTest, ADeviceWithoutAnAddressHasNone) {
  EXPECT_THAT(DeviceFilesOf({""}, Tree()), IsEmpty());
}

TEST(DeviceFilesTest, AnInstanceHasItsGpuAndItsOwn) {
  const std::string root = Tree();
  const std::string gpu = root + "/proc/driver/nvidia/capabilities/gpu1/mig/gi7";
  std::filesystem::create_directories(gpu + "/ci0");
  std::ofstream(gpu + "/access") << "DeviceFileMinor: 66\nDeviceFileMode: 292\n";
  EXPECT_EQ(InstanceFilesOf(1, 7, 0, root).status().code(), absl::StatusCode::kNotFound);
  std::ofstream(gpu + "/ci0/access") << "DeviceFileMinor: 67\nDeviceFileMode: 292\n";
  const auto files = InstanceFilesOf(1, 7, 0, root);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, ElementsAre(root + "/dev/nvidia1", root + "/dev/nvidia-caps/nvidia-cap66",
                                  root + "/dev/nvidia-caps/nvidia-cap67"));
  EXPECT_FALSE(InstanceFilesOf(1, 8, 0, root).ok());
}

TEST(DeviceFilesTest, AGroupIsNeededWhereOthersMayNotOpen) {
  const std::string file = Tree() + "/dev/nvidia0";
  chmod(file.c_str(), 0666);
  EXPECT_THAT(GroupsOf({file}), IsEmpty());
  chmod(file.c_str(), 0660);
  struct stat info;
  ASSERT_EQ(stat(file.c_str(), &info), 0);
  EXPECT_THAT(GroupsOf({file}), ElementsAre(info.st_gid));
}

}  // namespace
}  // namespace warpline::jail
