#include "server/gpu_server/leases/placement.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lease/entitlement.h"

namespace warpline::server {
namespace {

std::vector<PlacementCandidate> ThreeDevices() {
  return {{std::string(16, '\x01'), 2}, {std::string(16, '\xab'), 1}, {std::string(16, '\x03'), 1}};
}

TEST(PlacementTest, EmptyChoosesTheFirstWithFewestSessions) {
  EXPECT_EQ(*PlaceSession(ThreeDevices(), ParseDeviceNames("")), (std::vector<size_t>{1u}));
}

TEST(PlacementTest, OrdinalAndUuidNameADevice) {
  EXPECT_EQ(*PlaceSession(ThreeDevices(), ParseDeviceNames("2")), (std::vector<size_t>{2u}));
  EXPECT_EQ(
      *PlaceSession(ThreeDevices(), ParseDeviceNames("GPU-abababab-abab-abab-abab-abababababab")),
      (std::vector<size_t>{1u}));
  EXPECT_EQ(
      *PlaceSession(ThreeDevices(), ParseDeviceNames("GPU-ABABABAB-abab-abab-abab-abababababab")),
      (std::vector<size_t>{1u}));
}

TEST(PlacementTest, TheBeginningOfAUuidNamesTheDeviceWhereItIsOfOneAlone) {
  using Indices = std::vector<size_t>;
  const auto place = [](const std::string& wanted) {
    return PlaceSession(ThreeDevices(), ParseDeviceNames(wanted));
  };
  EXPECT_EQ(*place("GPU-ab"), (Indices{1}));
  EXPECT_EQ(*place("MIG-03,GPU-01010101-0"), (Indices{2, 0}));
  EXPECT_EQ(*place("GPU-01,GPU-0,GPU-03"), (Indices{0}));
  EXPECT_EQ(place("GPU-0").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(place("GPU-01,GPU-0101").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*PlaceLease(ThreeDevices(), ParseDeviceNames("GPU-ab"), 1),
            DeviceNames{FormatDeviceUuid(std::string(16, '\xab'))});
  EXPECT_EQ(*ChooseOfLease(ParseDeviceNames("GPU-bc,GPU-ad"), ParseDeviceNames("GPU-a")),
            ParseDeviceNames("GPU-ad"));
}

TEST(PlacementTest, WhatIsNotThereIsRefused) {
  const auto code = [](const std::string& wanted) {
    return PlaceSession(ThreeDevices(), ParseDeviceNames(wanted)).status().code();
  };
  EXPECT_EQ(code("3"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("GPU-1"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("-1"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("gpu0"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("99999999999999999999"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PlaceSession({}, ParseDeviceNames("")).status().code(), absl::StatusCode::kNotFound);
}

TEST(PlacementTest, ListsNameDevicesInTheirOrder) {
  using Indices = std::vector<size_t>;
  EXPECT_EQ(*PlaceSession(ThreeDevices(), ParseDeviceNames("2,0")), (Indices{2, 0}));
  EXPECT_EQ(*PlaceSession(ThreeDevices(),
                          ParseDeviceNames("2, GPU-abababab-abab-abab-abab-abababababab")),
            (Indices{2, 1}));
  // CUDA reads CUDA_VISIBLE_DEVICES in the same way.
  EXPECT_EQ(*PlaceSession(ThreeDevices(), ParseDeviceNames("2,3,0")), (Indices{2}));
  EXPECT_EQ(*PlaceSession(ThreeDevices(), ParseDeviceNames("1,")), (Indices{1}));
  EXPECT_EQ(*PlaceSession(ThreeDevices(), ParseDeviceNames("1,-1,2")), (Indices{1}));
  EXPECT_EQ(PlaceSession(ThreeDevices(), ParseDeviceNames("1,1")).status().code(),
            absl::StatusCode::kInvalidArgument);
  const std::vector<PlacementCandidate> many = [] {
    std::vector<PlacementCandidate> devices;
    for (char i = 0; i < 17; ++i) devices.push_back({std::string(16, i), 0});
    return devices;
  }();
  std::string all = "0";
  for (int i = 1; i < 16; ++i) all += "," + std::to_string(i);
  EXPECT_EQ(PlaceSession(many, ParseDeviceNames(all))->size(), 16u);
  EXPECT_EQ(PlaceSession(many, ParseDeviceNames(all + ",16")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(PlacementTest, LeaseGetsTheDevicesWithFewestSessionsOrAllThatItNames) {
  const std::string first = FormatDeviceUuid(std::string(16, '\x01'));
  const std::string second = FormatDeviceUuid(std::string(16, '\xab'));
  const std::string third = FormatDeviceUuid(std::string(16, '\x03'));
  const auto code = [](const std::string& wanted, uint32_t count) {
    return PlaceLease(ThreeDevices(), ParseDeviceNames(wanted), count).status().code();
  };
  EXPECT_EQ(*PlaceLease(ThreeDevices(), ParseDeviceNames(""), 2), (DeviceNames{second, third}));
  EXPECT_EQ(*PlaceLease(ThreeDevices(), ParseDeviceNames("2,0"), 0), (DeviceNames{third, first}));
  EXPECT_EQ(*PlaceLease(ThreeDevices(), ParseDeviceNames("2,0"), 2), (DeviceNames{third, first}));
  EXPECT_EQ(code("2,0", 3), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("2,3", 2), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("2,x", 0), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("", 4), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("0,0", 0), absl::StatusCode::kInvalidArgument);
}

TEST(PlacementTest, SessionOfALeaseHasSomeOfItsDevices) {
  EXPECT_EQ(*ChooseOfLease(ParseDeviceNames("GPU-b,GPU-a"), ParseDeviceNames("")),
            ParseDeviceNames("GPU-b,GPU-a"));
  EXPECT_EQ(*ChooseOfLease(ParseDeviceNames("GPU-b,GPU-a"), ParseDeviceNames("1")),
            ParseDeviceNames("GPU-a"));
  EXPECT_EQ(*ChooseOfLease(ParseDeviceNames("GPU-b,GPU-a"), ParseDeviceNames("1,0")),
            ParseDeviceNames("GPU-a,GPU-b"));
  EXPECT_EQ(*ChooseOfLease(ParseDeviceNames("GPU-b,GPU-a"), ParseDeviceNames("GPU-A")),
            ParseDeviceNames("GPU-a"));
  EXPECT_EQ(*ChooseOfLease(ParseDeviceNames("GPU-b"), ParseDeviceNames("0,1")),
            ParseDeviceNames("GPU-b"));
  EXPECT_EQ(ChooseOfLease(ParseDeviceNames("GPU-b"), ParseDeviceNames("1")).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ChooseOfLease(ParseDeviceNames("GPU-b"), ParseDeviceNames("GPU-c")).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace warpline::server
