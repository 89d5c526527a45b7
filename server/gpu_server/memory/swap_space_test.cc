#include "server/gpu_server/memory/swap_space.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace warpline::server {
namespace {

constexpr uint64_t kGranule = SwapSpace::kGranule;

uint64_t Total(const SwapSpace::Place& place) {
  uint64_t bytes = 0;
  for (const auto& extent : place.extents()) bytes += extent.bytes;
  return bytes;
}

TEST(SwapSpaceTest, GivesWhatItHasAndTakesItBack) {
  const auto space = SwapSpace::Open(5 * kGranule - 1, 2);
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_EQ((*space)->bytes(), 5 * kGranule);
  ASSERT_EQ((*space)->blocks(), 1u);
  EXPECT_EQ((*space)->block_bytes(0), 5 * kGranule);
  {
    auto one = (*space)->Take(2 * kGranule);
    auto two = (*space)->Take(2 * kGranule);
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_EQ((*space)->free_bytes(), kGranule);
    EXPECT_TRUE(absl::IsResourceExhausted((*space)->Take(2 * kGranule).status()));
    EXPECT_EQ((*space)->free_bytes(), kGranule);
    *one = SwapSpace::Place();
    const auto three = (*space)->Take(3 * kGranule);
    ASSERT_TRUE(three.ok()) << three.status();
    EXPECT_EQ(Total(*three), 3 * kGranule);
    EXPECT_EQ(three->extents().size(), 2u);  // Around the second one.
    EXPECT_EQ((*space)->free_bytes(), 0u);
    const SwapSpace::Place moved = *std::move(two);
    EXPECT_EQ(Total(moved), 2 * kGranule);
  }
  EXPECT_EQ((*space)->free_bytes(), 5 * kGranule);
}

TEST(SwapSpaceTest, ExtentsOfTwoPlacesDoNotOverlap) {
  const auto space = SwapSpace::Open(8 * kGranule, 1);
  ASSERT_TRUE(space.ok()) << space.status();
  std::vector<SwapSpace::Place> places;
  std::vector<int> owners(8, 0);
  for (int i = 0; i < 4; ++i) places.push_back(*(*space)->Take(2 * kGranule));
  for (const auto& place : places) {
    for (const auto& extent : place.extents()) {
      for (uint64_t at = 0; at < extent.bytes; at += kGranule) {
        ++owners[(extent.offset + at) / kGranule];
      }
    }
  }
  EXPECT_EQ(owners, std::vector<int>(8, 1));
}

}  // namespace
}  // namespace warpline::server
