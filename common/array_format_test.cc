#include "common/array_format.h"

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

}  // namespace
}  // namespace warpline
