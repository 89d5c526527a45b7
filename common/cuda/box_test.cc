#include "common/cuda/box.h"

#include <string>

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(BoxTest, SpanGoesFromTheFirstByteToTheLast) {
  uint64_t bytes = 0;
  EXPECT_TRUE(BoxSpan({4096, 100, 300}, {60, 3, 2}, &bytes));
  EXPECT_EQ(bytes, 300u + 200 + 60);
  EXPECT_TRUE(BoxSpan({4096, 60, 0}, {60, 1, 1}, &bytes));
  EXPECT_EQ(bytes, 60u);
}

TEST(BoxTest, OverlapsAndOverflowsAreNoBoxes) {
  uint64_t bytes;
  EXPECT_FALSE(BoxSpan({0, 50, 0}, {60, 1, 1}, &bytes));
  EXPECT_FALSE(BoxSpan({0, 100, 200}, {60, 3, 2}, &bytes));
  EXPECT_FALSE(BoxSpan({0, 100, 350}, {60, 3, 2}, &bytes));
  EXPECT_FALSE(BoxSpan({0, 100, 300}, {0, 3, 2}, &bytes));
  EXPECT_FALSE(BoxSpan({0, 1ull << 40, 0}, {60, 1ull << 40, 1}, &bytes));
  EXPECT_FALSE(BoxSpan({0, 1ull << 33, 1ull << 62}, {60, 2, 9}, &bytes));
  EXPECT_FALSE(BoxSpan({~uint64_t{0} - 10, 60, 0}, {60, 1, 1}, &bytes));
}

// Cuts a box into its parts, and writes each row as its bytes' places in the box.
std::string Reassemble(const BoxExtent& extent, uint64_t max_bytes) {
  const BoxPlace packed = {0, extent.width, extent.width * extent.height};
  std::string seen;
  for (uint64_t offset = 0; offset < extent.bytes();) {
    const BoxPart part = PartOfBox(extent, offset, max_bytes);
    EXPECT_LE(part.extent.bytes(), max_bytes);
    EXPECT_GT(part.extent.bytes(), 0u);
    ForEachRow(part.In(packed), part.extent, [&](uint64_t address, uint64_t, uint64_t bytes) {
      for (uint64_t i = 0; i < bytes; ++i) seen.push_back(static_cast<char>(address + i));
    });
    offset += part.extent.bytes();
  }
  return seen;
}

TEST(BoxTest, PartsFollowEachOtherWithoutGaps) {
  const BoxExtent extent = {5, 4, 3};
  std::string all;
  for (int i = 0; i < 60; ++i) all.push_back(static_cast<char>(i));
  for (uint64_t max_bytes = 1; max_bytes <= 61; ++max_bytes) {
    EXPECT_EQ(Reassemble(extent, max_bytes), all) << max_bytes;
  }
}

TEST(BoxTest, PartsAreAsLargeAsTheyMayBe) {
  EXPECT_EQ(PartOfBox({5, 4, 3}, 0, 45).extent.depth, 2u);
  EXPECT_EQ(PartOfBox({5, 4, 3}, 5, 45).extent.height, 3u);
  EXPECT_EQ(PartOfBox({5, 4, 3}, 0, 3).extent.width, 3u);
}

}  // namespace
}  // namespace warpline
