#include "client_stub/arena/free_bins.h"

#include <vector>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

TEST(SizeClassTest, GrowsWithTheSizeAndStaysInRange) {
  int last = -1;
  for (uint64_t units = 1; units < 5000; ++units) {
    const int size_class = SizeClass(units * kAllocationUnit);
    EXPECT_GE(size_class, last);
    EXPECT_LE(size_class, last + 1 + (last < 0 ? 1 : 0));
    last = size_class;
  }
  EXPECT_LT(SizeClass(1ull << 42), SizeClass(2ull << 42));
  EXPECT_LT(SizeClass(1ull << 46), kSizeClasses);
}

class FreeBinsTest : public testing::Test {
 protected:
  Block* Add(uint64_t bytes) {
    Block* block = pool_.New();
    block->bytes = bytes;
    bins_.Insert(block);
    return block;
  }

  BlockPool pool_;
  FreeBins bins_;
};

TEST_F(FreeBinsTest, EmptyBinsHaveNothing) {
  EXPECT_EQ(bins_.TakeFit(512), nullptr);
  EXPECT_EQ(bins_.total_bytes(), 0u);
}

TEST_F(FreeBinsTest, SmallestFittingClassIsTaken) {
  Block* small = Add(1024);
  Block* large = Add(1 << 20);
  EXPECT_EQ(bins_.total_bytes(), 1024u + (1 << 20));
  EXPECT_EQ(bins_.TakeFit(2048), large);
  EXPECT_EQ(bins_.TakeFit(2048), nullptr);
  EXPECT_EQ(bins_.TakeFit(512), small);
  EXPECT_EQ(bins_.total_bytes(), 0u);
}

TEST_F(FreeBinsTest, BlockOfTheSameClassIsFoundBehindManySmallerOnes) {
  const uint64_t want = 1000ull * 1024;
  Block* fits = Add(want);
  for (int i = 0; i < 100; ++i) Add(want - 512);
  ASSERT_EQ(SizeClass(want), SizeClass(want - 512));
  EXPECT_EQ(bins_.TakeFit(want), fits);
  EXPECT_EQ(bins_.TakeFit(want), nullptr);
}

TEST_F(FreeBinsTest, AtLeastListsAllLargeBlocks) {
  Add(512);
  Block* large = Add(64 << 20);
  Block* larger = Add(1ull << 30);
  EXPECT_EQ(bins_.AtLeast(32 << 20), (std::vector<Block*>{large, larger}));
}

}  // namespace
}  // namespace warpline::stub
