#include "client_stub/core/memory/address_ranges.h"

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

TEST(AddressRangesTest, TakesFromTheFirstThatHasAsMuch) {
  AddressRanges ranges;
  uint64_t at = 0;
  EXPECT_FALSE(ranges.Take(1, &at));
  ranges.Add(100, 10);
  ranges.Add(200, 50);
  ASSERT_TRUE(ranges.Take(20, &at));
  EXPECT_EQ(at, 200u);
  ASSERT_TRUE(ranges.Take(10, &at));
  EXPECT_EQ(at, 100u);
  EXPECT_FALSE(ranges.Take(31, &at));
  ASSERT_TRUE(ranges.Take(30, &at));
  EXPECT_EQ(at, 220u);
}

TEST(AddressRangesTest, NeighboursBecomeOne) {
  AddressRanges ranges;
  uint64_t at = 0;
  ranges.Add(0, 10);
  ranges.Add(20, 10);
  ranges.Add(10, 10);
  ASSERT_TRUE(ranges.Take(30, &at));
  EXPECT_EQ(at, 0u);
}

TEST(AddressRangesTest, TakesAPart) {
  AddressRanges ranges;
  uint64_t at = 0;
  ranges.Add(0, 100);
  EXPECT_TRUE(ranges.TakeAt(40, 20));
  EXPECT_FALSE(ranges.TakeAt(30, 20));
  EXPECT_FALSE(ranges.TakeAt(90, 20));
  ASSERT_TRUE(ranges.Take(40, &at));
  EXPECT_EQ(at, 0u);
  ASSERT_TRUE(ranges.Take(40, &at));
  EXPECT_EQ(at, 60u);
}

}  // namespace
}  // namespace warpline::stub
