#include "common/cuda/array_format.h"

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(ArrayFormatTest, ElementsAreComponentsTimesChannels) {
  EXPECT_EQ(ArrayElementBytes(0x20, 1), 4u);
  EXPECT_EQ(ArrayElementBytes(0x10, 4), 8u);
  EXPECT_EQ(ArrayElementBytes(0x08, 2), 2u);
}

TEST(ArrayFormatTest, NormalizedFormatsNameTheirChannels) {
  EXPECT_EQ(ArrayElementBytes(0xc0, 1), 1u);
  EXPECT_EQ(ArrayElementBytes(0xc2, 4), 4u);
  EXPECT_EQ(ArrayElementBytes(0xc5, 4), 8u);
  EXPECT_EQ(ArrayElementBytes(0xc9, 1), 2u);
  EXPECT_EQ(ArrayElementBytes(0xcb, 4), 8u);
}

TEST(ArrayFormatTest, CompressedAndUnknownFormatsHaveNone) {
  EXPECT_EQ(ArrayElementBytes(0x91, 4), 0u);
  EXPECT_EQ(ArrayElementBytes(0xcc, 1), 0u);
  EXPECT_EQ(ArrayElementBytes(0xffffffff, 0xffffffff), 0u);
}

TEST(ArrayFormatTest, AnArrayHasTheBytesOfAllItsLevels) {
  ArrayExtents extents = {64, 16, 0, 0x20, 4, 0, 0};
  EXPECT_EQ(ArrayBytes(extents), 64u * 16 * 16);
  EXPECT_EQ(ArrayChargedBytes(extents), 64u << 10);
  extents.levels = 7;
  EXPECT_EQ(ArrayBytes(extents), (64u * 16 + 32 * 8 + 16 * 4 + 8 * 2 + 4 + 2 + 1) * 16);
  // The number of layers is the same at each level.
  extents = {4, 4, 6, 0x20, 1, 1, 2};
  EXPECT_EQ(ArrayBytes(extents), (4u * 4 + 2 * 2) * 6 * 4);
  extents = {~uint64_t{0}, ~uint64_t{0}, 1, 0x20, 1, 0, 0};
  EXPECT_EQ(ArrayBytes(extents), ~uint64_t{0});
  EXPECT_EQ(ArrayChargedBytes(extents), ~uint64_t{0});
}

}  // namespace
}  // namespace warpline
