#include <cstdint>

#include "gtest/gtest.h"
#include "guard/guard.h"

namespace warpline::guard {
namespace {

constexpr uint64_t kArena = 0x3000'0000'0000;
constexpr uint64_t kPace = 0x7000'0000'0040;

TEST(LaunchWords, SayTheArenaAndTheBlocks) {
  const LaunchWords words = LaunchWordsOf(kArena, {5, 6, 7}, {96, 1, 1}, /*asks=*/false, kPace);
  EXPECT_EQ(words.arena_high[0], 0x3000u);
  EXPECT_EQ(words.arena_high[1], 0x3000u);
  EXPECT_EQ(words.blocks, 210u);
  EXPECT_EQ(words.shape, 210u);
  EXPECT_EQ(words.zero_stride, 96u * 16);
  EXPECT_EQ(words.pace, kPace);
}

TEST(LaunchWords, SayThatABlockIsMoreThanARow) {
  EXPECT_EQ(LaunchWordsOf(kArena, {9, 1, 1}, {1, 2, 1}, false, kPace).shape, kNotARow | 9);
  const LaunchWords words = LaunchWordsOf(kArena, {9, 1, 1}, {4, 1, 8}, false, kPace);
  EXPECT_EQ(words.shape, kNotARow | 9);
  EXPECT_EQ(words.blocks, 9u);
  EXPECT_EQ(words.zero_stride, 32u * 16);
}

TEST(LaunchWords, CountNoMoreBlocksThanTheyHaveBitsFor) {
  for (const uint32_t most : {uint32_t{INT32_MAX}, UINT32_MAX}) {
    const LaunchWords words = LaunchWordsOf(kArena, {most, most, most}, {1, 1, 2}, false, kPace);
    EXPECT_EQ(words.blocks, kMostCountedBlocks);
    EXPECT_EQ(words.shape, UINT32_MAX);
  }
}

TEST(LaunchWords, HaveAllBlocksAsk) {
  const LaunchWords words = LaunchWordsOf(kArena, {1, 1, 1}, {1, 1, 1}, /*asks=*/true, kPace);
  EXPECT_EQ(words.blocks, kMostCountedBlocks);
  EXPECT_EQ(words.shape, kMostCountedBlocks);
}

TEST(LaunchWords, LieBehindTheTenantsParameters) {
  EXPECT_EQ(LaunchWordsAt(0), 0u);
  EXPECT_EQ(LaunchWordsAt(1), 8u);
  EXPECT_EQ(LaunchWordsAt(8), 8u);
  EXPECT_EQ(LaunchWordsAt(20), 24u);
}

}  // namespace
}  // namespace warpline::guard
