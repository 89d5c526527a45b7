#include "lease/device_match.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace warpline {
namespace {

const std::vector<std::string> kDevices = {"GPU-9942190a-aa31", "GPU-9e8d35e3-a134",
                                           "GPU-9e8d3333-0000", "GPU-9e"};

TEST(DeviceMatchTest, AUuidOrItsBeginningNamesADevice) {
  EXPECT_EQ(FindByUuidName(kDevices, "GPU-9942190a-aa31"), 0u);
  EXPECT_EQ(FindByUuidName(kDevices, "GPU-99"), 0u);
  EXPECT_EQ(FindByUuidName(kDevices, "GPU-9E8D35"), 1u);
  EXPECT_EQ(FindByUuidName(kDevices, "MIG-9e8d33"), 2u);
}

TEST(DeviceMatchTest, TheWholeUuidIsMeantBeforeAnyBeginning) {
  EXPECT_EQ(FindByUuidName(kDevices, "GPU-9e"), 3u);
  EXPECT_EQ(FindByUuidName({"GPU-a", "GPU-a2"}, "GPU-a"), 0u);
  EXPECT_EQ(FindByUuidName({"GPU-a3", "GPU-a2", "GPU-a"}, "GPU-a"), 2u);
}

TEST(DeviceMatchTest, WhatIsOfSeveralOrOfNoneNamesNone) {
  for (const char* name : {"GPU-9", "GPU-9e8d", "GPU-1", "GPU-", "MIG-", "GPU", "", "9942190a",
                           "gpu-99", "GPU-9942190a-aa311"}) {
    EXPECT_FALSE(FindByUuidName(kDevices, name).has_value()) << name;
  }
  EXPECT_FALSE(FindByUuidName({}, "GPU-1").has_value());
  EXPECT_FALSE(FindByUuidName({"", "GPU"}, "GPU-1").has_value());
}

}  // namespace
}  // namespace warpline
