#include "scheduler/placement.h"

#include "gtest/gtest.h"

namespace warpline::scheduler {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

std::vector<DeviceState> Pool() {
  return {{"a", "GPU-0", 80 * kGiB, 60 * kGiB, 3},
          {"a", "GPU-1", 80 * kGiB, 10 * kGiB, 1},
          {"b", "GPU-2", 80 * kGiB, 76 * kGiB, 1}};
}

std::vector<size_t> Just(size_t device) { return {device}; }

TEST(PlacementTest, SpreadTakesTheEmptiestDevice) {
  const auto placed = Place(Pool(), {4 * kGiB}, PlacementPolicy::kSpread);
  ASSERT_TRUE(placed.ok());
  EXPECT_EQ(placed->devices, Just(1u));
  EXPECT_EQ(placed->memory_bytes, 4 * kGiB);
}

TEST(PlacementTest, PackTakesTheFullestDeviceThatFits) {
  EXPECT_EQ(Place(Pool(), {4 * kGiB}, PlacementPolicy::kPack)->devices, Just(2u));
  EXPECT_EQ(Place(Pool(), {5 * kGiB}, PlacementPolicy::kPack)->devices, Just(0u));
  EXPECT_EQ(Place(Pool(), {21 * kGiB}, PlacementPolicy::kPack)->devices, Just(1u));
}

TEST(PlacementTest, OfEqualDevicesTheOneWithFewerLeasesIsTaken) {
  std::vector<DeviceState> pool = Pool();
  for (DeviceState& device : pool) device.leased_bytes = 0;
  EXPECT_EQ(Place(pool, {kGiB}, PlacementPolicy::kSpread)->devices, Just(1u));
  EXPECT_EQ(Place(pool, {kGiB}, PlacementPolicy::kPack)->devices, Just(1u));
}

TEST(PlacementTest, UnnamedSizeIsAQuarterOfTheDevice) {
  EXPECT_EQ(Place(Pool(), {0}, PlacementPolicy::kSpread)->memory_bytes, 20 * kGiB);
  EXPECT_EQ(Place(Pool(), {0, {"GPU-2"}}, PlacementPolicy::kSpread).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(PlacementTest, NamedDeviceIsTakenOrRefused) {
  EXPECT_EQ(Place(Pool(), {kGiB, {"GPU-0"}}, PlacementPolicy::kSpread)->devices, Just(0u));
  EXPECT_EQ(Place(Pool(), {kGiB, {"GPU-9"}}, PlacementPolicy::kSpread).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(PlacementTest, WhatFitsNowhereIsRefusedWithWhatIsFree) {
  const auto status = Place(Pool(), {71 * kGiB}, PlacementPolicy::kSpread).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("71680 MiB"), std::string::npos) << status;
  EXPECT_EQ(Place({}, {kGiB}, PlacementPolicy::kPack).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(PlacementTest, OverbookedDeviceHasNothingFree) {
  EXPECT_FALSE(
      Place({{"a", "GPU-0", kGiB, 2 * kGiB, 1}}, {2ull << 20}, PlacementPolicy::kPack).ok());
}

TEST(PlacementTest, SeveralDevicesAreOfOneServer) {
  std::vector<DeviceState> pool = Pool();
  pool.push_back({"b", "GPU-3", 80 * kGiB, 0, 0});
  pool.push_back({"b", "GPU-4", 80 * kGiB, 5 * kGiB, 0});
  using Indices = std::vector<size_t>;
  // The second best device of b is better than that of a, whose best is worse.
  EXPECT_EQ(Place(pool, {4 * kGiB, {}, 2}, PlacementPolicy::kSpread)->devices, (Indices{3, 4}));
  EXPECT_EQ(Place(pool, {4 * kGiB, {}, 3}, PlacementPolicy::kSpread)->devices, (Indices{2, 3, 4}));
  EXPECT_EQ(Place(pool, {4 * kGiB, {}, 2}, PlacementPolicy::kPack)->devices, (Indices{0, 1}));
  const auto status = Place(pool, {4 * kGiB, {}, 4}, PlacementPolicy::kSpread).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("has 3"), std::string::npos) << status;
  EXPECT_FALSE(Place(pool, {5 * kGiB, {}, 3}, PlacementPolicy::kSpread).ok());
}

TEST(PlacementTest, SeveralNamedDevicesKeepTheirOrder) {
  EXPECT_EQ(Place(Pool(), {kGiB, {"GPU-1", "GPU-0"}}, PlacementPolicy::kSpread)->devices,
            (std::vector<size_t>{1, 0}));
  EXPECT_EQ(Place(Pool(), {kGiB, {"GPU-1", "GPU-2"}}, PlacementPolicy::kSpread).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Place(Pool(), {30 * kGiB, {"GPU-1", "GPU-0"}}, PlacementPolicy::kPack).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(PlacementTest, UnnamedSizeOfSeveralIsThatOfTheSmallest) {
  const std::vector<DeviceState> pool = {{"a", "GPU-0", 80 * kGiB, 0, 0},
                                         {"a", "GPU-1", 40 * kGiB, 0, 0}};
  EXPECT_EQ(Place(pool, {0, {}, 2}, PlacementPolicy::kSpread)->memory_bytes, 10 * kGiB);
}

}  // namespace
}  // namespace warpline::scheduler
