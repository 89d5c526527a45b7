#include "server/placement.h"

#include "gtest/gtest.h"

namespace warpline {
namespace {

std::vector<PlacementCandidate> ThreeDevices() {
  return {{std::string(16, '\x01'), 2}, {std::string(16, '\xab'), 1}, {std::string(16, '\x03'), 1}};
}

TEST(PlacementTest, EmptyChoosesTheFirstWithFewestSessions) {
  EXPECT_EQ(*PlaceSession(ThreeDevices(), ""), 1u);
}

TEST(PlacementTest, OrdinalAndUuidNameADevice) {
  EXPECT_EQ(*PlaceSession(ThreeDevices(), "2"), 2u);
  EXPECT_EQ(*PlaceSession(ThreeDevices(), "GPU-abababab-abab-abab-abab-abababababab"), 1u);
  EXPECT_EQ(*PlaceSession(ThreeDevices(), "GPU-ABABABAB-abab-abab-abab-abababababab"), 1u);
}

TEST(PlacementTest, WhatIsNotThereIsRefused) {
  const auto code = [](const std::string& wanted) {
    return PlaceSession(ThreeDevices(), wanted).status().code();
  };
  EXPECT_EQ(code("3"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("GPU-1"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("-1"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("gpu0"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("99999999999999999999"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PlaceSession({}, "").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace warpline
