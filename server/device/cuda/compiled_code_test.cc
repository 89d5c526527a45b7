#include "server/device/cuda/compiled_code.h"

#include "gtest/gtest.h"

namespace warpline::device {
namespace {

ContentHash HashOf(uint8_t number) {
  ContentHash hash = {};
  hash[0] = number;
  return hash;
}

TEST(CompiledCodeTest, FindsWhatItKept) {
  CompiledCode kept;
  EXPECT_EQ(kept.Find(HashOf(1)), nullptr);
  EXPECT_EQ(*kept.Keep(HashOf(1), "one"), "one");
  ASSERT_NE(kept.Find(HashOf(1)), nullptr);
  EXPECT_EQ(*kept.Find(HashOf(1)), "one");
  EXPECT_EQ(kept.Find(HashOf(2)), nullptr);
}

TEST(CompiledCodeTest, WhatWasKeptFirstStays) {
  CompiledCode kept;
  kept.Keep(HashOf(1), "one");
  EXPECT_EQ(*kept.Keep(HashOf(1), "two"), "one");
}

TEST(CompiledCodeTest, TheLeastRecentlyUsedGivesWay) {
  CompiledCode kept(10);
  kept.Keep(HashOf(1), "1111");
  kept.Keep(HashOf(2), "2222");
  kept.Find(HashOf(1));
  kept.Keep(HashOf(3), "3333");
  EXPECT_NE(kept.Find(HashOf(1)), nullptr);
  EXPECT_EQ(kept.Find(HashOf(2)), nullptr);
  EXPECT_NE(kept.Find(HashOf(3)), nullptr);
}

TEST(CompiledCodeTest, WhatIsTooLargeIsReturnedAndNotKept) {
  CompiledCode kept(4);
  kept.Keep(HashOf(1), "1111");
  EXPECT_EQ(*kept.Keep(HashOf(2), "22222"), "22222");
  EXPECT_EQ(kept.Find(HashOf(2)), nullptr);
  EXPECT_NE(kept.Find(HashOf(1)), nullptr);
}

}  // namespace
}  // namespace warpline::device
