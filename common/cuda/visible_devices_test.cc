#include "common/cuda/visible_devices.h"

#include <string>

#include "gtest/gtest.h"

namespace warpline {
namespace {

constexpr size_t kMost = 16;

std::string Parsed(const std::string& value) {
  const VisibleDevices visible = ParseVisibleDevices(value.c_str(), kMost);
  EXPECT_EQ(visible.none, visible.device.empty()) << value;
  return visible.device;
}

TEST(VisibleDevicesTest, UnsetLeavesTheChoiceToTheServer) {
  const VisibleDevices visible = ParseVisibleDevices(nullptr, kMost);
  EXPECT_FALSE(visible.none);
  EXPECT_EQ(visible.device, "");
}

TEST(VisibleDevicesTest, EmptyOrInvalidFirstEntryHidesEveryDevice) {
  for (const char* value : {"", "-1", "-1,0", " ", "NoDevFiles", ",0", "GPU-", "MIG-", "x0", "+",
                            "gpu-8c0f1a2b", "99999999999999999999", " GPU-8c0f1a2b"}) {
    EXPECT_EQ(Parsed(value), "") << value;
  }
}

TEST(VisibleDevicesTest, FirstEntryNamesTheDevice) {
  EXPECT_EQ(Parsed("0"), "0");
  EXPECT_EQ(Parsed(" 1 "), "1");
  EXPECT_EQ(Parsed("+1"), "1");
  EXPECT_EQ(Parsed("007"), "7");
  EXPECT_EQ(Parsed("GPU-8c0f1a2b"), "GPU-8c0f1a2b");
  EXPECT_EQ(Parsed("GPU-8 "), "GPU-8");
  EXPECT_EQ(Parsed("GPU-8C0F"), "GPU-8c0f");
  EXPECT_EQ(Parsed("GPU-e1c5c827-96b0-cc7b-a376-2db5617d1d5c0"),
            "GPU-e1c5c827-96b0-cc7b-a376-2db5617d1d5c");
  EXPECT_EQ(Parsed("MIG-8c0f1a2b-1234"), "MIG-8c0f1a2b-1234");
}

TEST(VisibleDevicesTest, AnOrdinalEndsWhereItsDigitsEnd) {
  EXPECT_EQ(Parsed("1gpu2,2ampere"), "1,2");
  EXPECT_EQ(Parsed("0x1"), "0");
  EXPECT_EQ(Parsed("0 1"), "0");
}

TEST(VisibleDevicesTest, SeveralKeepTheirOrder) {
  EXPECT_EQ(Parsed("2, 0,1"), "2,0,1");
  EXPECT_EQ(Parsed("GPU-8c,GPU-1"), "GPU-8c,GPU-1");
}

TEST(VisibleDevicesTest, TheListEndsAtTheFirstEntryThatNamesNoDevice) {
  EXPECT_EQ(Parsed("2,-1,1"), "2");
  EXPECT_EQ(Parsed("0,1,"), "0,1");
  EXPECT_EQ(Parsed("0,,1"), "0");
  EXPECT_EQ(Parsed("0,-1,0"), "0");
  EXPECT_EQ(Parsed("GPU-8c,,GPU-1"), "GPU-8c");
}

TEST(VisibleDevicesTest, TheListEndsAtTheFirstEntryOfAnotherKind) {
  EXPECT_EQ(Parsed("1,GPU-8c0f1a2b"), "1");
  EXPECT_EQ(Parsed("GPU-8c0f1a2b,1"), "GPU-8c0f1a2b");
  EXPECT_EQ(Parsed("GPU-8c0f1a2b,MIG-1,GPU-2"), "GPU-8c0f1a2b");
  EXPECT_EQ(Parsed("MIG-1,GPU-8c0f1a2b"), "MIG-1");
}

TEST(VisibleDevicesTest, OneThatIsNamedTwiceHidesEveryDevice) {
  for (const char* value : {"0,1,0", "1,01", "1,+1", "0,0,-1", "GPU-8c,GPU-8c"}) {
    EXPECT_EQ(Parsed(value), "") << value;
  }
}

TEST(VisibleDevicesTest, NoMoreThanASessionHas) {
  EXPECT_EQ(ParseVisibleDevices("0,1,2,3", 2).device, "0,1");
  EXPECT_TRUE(ParseVisibleDevices("0,1,2,0", 2).none);
}

}  // namespace
}  // namespace warpline
