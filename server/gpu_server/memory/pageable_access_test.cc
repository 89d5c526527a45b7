#include "server/gpu_server/memory/pageable_access.h"

#include <string>

#include "gtest/gtest.h"

namespace warpline::server {
namespace {

warpline_internal::DeviceInfo Device(int pageable) {
  warpline_internal::DeviceInfo device;
  auto* attribute = device.add_attributes();
  attribute->set_id(1);
  attribute->set_value(1024);
  if (pageable < 0) return device;
  attribute = device.add_attributes();
  attribute->set_id(88);
  attribute->set_value(pageable);
  return device;
}

TEST(PageableAccessTest, ADeviceSaysSoByItsAttribute) {
  EXPECT_FALSE(ReachesPageableMemory(Device(-1)));
  EXPECT_FALSE(ReachesPageableMemory(Device(0)));
  EXPECT_TRUE(ReachesPageableMemory(Device(1)));
}

TEST(PageableAccessTest, AWarningNamesTheDeviceAndTheSwitch) {
  testing::internal::CaptureStderr();
  EXPECT_TRUE(CheckPageableAccess(Device(1), 3, PageableAccess::kWarn).ok());
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find("gpu=3"), std::string::npos) << line;
  EXPECT_NE(line.find("uvm_disable_hmm=1"), std::string::npos) << line;
}

TEST(PageableAccessTest, OtherDevicesAreNotMentioned) {
  testing::internal::CaptureStderr();
  EXPECT_TRUE(CheckPageableAccess(Device(0), 0, PageableAccess::kWarn).ok());
  EXPECT_TRUE(CheckPageableAccess(Device(0), 0, PageableAccess::kRefuse).ok());
  EXPECT_TRUE(CheckPageableAccess(Device(-1), 0, PageableAccess::kRefuse).ok());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(PageableAccessTest, ARefusalSaysHowToEndIt) {
  const absl::Status refused = CheckPageableAccess(Device(1), 0, PageableAccess::kRefuse);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_NE(refused.message().find("--pageable_access"), std::string::npos) << refused;
}

}  // namespace
}  // namespace warpline::server
