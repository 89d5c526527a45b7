#include "server/worker/memory/arena_book.h"

#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kBase = 0x300000000000;
constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(ArenaBookTest, AnEmptyOneHoldsNothing) {
  const ArenaBook book;
  EXPECT_EQ(book.size(), 0u);
  EXPECT_FALSE(book.Holds(0));
  EXPECT_FALSE(book.Holds(kBase));
  EXPECT_FALSE(book.Holds(~uint64_t{0}));
}

TEST(ArenaBookTest, HoldsWhatLiesInAnArenaAndNotBetweenThem) {
  ArenaBook book;
  book.Add(kBase + 16 * kGiB, 4 * kGiB);
  book.Add(kBase, 4 * kGiB);
  book.Add(kBase + 64 * kGiB, 0);
  EXPECT_EQ(book.size(), 2u);
  EXPECT_TRUE(book.Holds(kBase));
  EXPECT_TRUE(book.Holds(kBase + 4 * kGiB - 1));
  EXPECT_TRUE(book.Holds(kBase + 16 * kGiB));
  EXPECT_TRUE(book.Holds(kBase + 20 * kGiB - 1));
  EXPECT_FALSE(book.Holds(kBase - 1));
  EXPECT_FALSE(book.Holds(kBase + 4 * kGiB));
  EXPECT_FALSE(book.Holds(kBase + 16 * kGiB - 1));
  EXPECT_FALSE(book.Holds(kBase + 20 * kGiB));
}

}  // namespace
}  // namespace warpline::worker
