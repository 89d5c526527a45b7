#include "server/gpu_server/nvml/device_groups.h"

#include "gtest/gtest.h"

namespace warpline::nvml {
namespace {

using Groups = std::vector<uint32_t>;

void Connect(Sample* sample, const std::string& a, const std::string& b, uint64_t nvlink,
             uint64_t topology) {
  sample->pairs[{a, b}] = {{"p2p_0", 0}, {"p2p_2", nvlink}, {"topology", topology}};
  sample->pairs[{b, a}] = sample->pairs[{a, b}];
}

TEST(DeviceGroupsTest, NothingIsKnownWithoutNvml) {
  const DeviceGroups groups = GroupsOf(Sample(), {"a", "b"});
  EXPECT_EQ(groups.nvlink, (Groups{0, 0}));
  EXPECT_EQ(groups.numa, (Groups{0, 0}));
}

TEST(DeviceGroupsTest, DevicesAreGroupedByNvlinkAndByNode) {
  Sample sample;
  Connect(&sample, "a", "b", 0, 30);
  Connect(&sample, "a", "c", 1, 50);
  Connect(&sample, "a", "d", 1, 50);
  Connect(&sample, "b", "c", 1, 50);
  Connect(&sample, "b", "d", 1, 50);
  Connect(&sample, "c", "d", 1, 40);
  const DeviceGroups groups = GroupsOf(sample, {"a", "b", "c", "d"});
  EXPECT_EQ(groups.nvlink, (Groups{1, 1, 0, 0}));
  EXPECT_EQ(groups.numa, (Groups{1, 1, 3, 3}));
}

TEST(DeviceGroupsTest, AChainOfNvlinksIsOneGroup) {
  Sample sample;
  Connect(&sample, "a", "c", 0, 50);
  Connect(&sample, "b", "d", 0, 50);
  Connect(&sample, "c", "d", 0, 50);
  EXPECT_EQ(GroupsOf(sample, {"a", "b", "c", "d"}).nvlink, (Groups{1, 1, 1, 1}));
  // Each has a node of its own.
  EXPECT_EQ(GroupsOf(sample, {"a", "b", "c", "d"}).numa, (Groups{1, 2, 3, 4}));
}

}  // namespace
}  // namespace warpline::nvml
