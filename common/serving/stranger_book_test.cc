#include "common/serving/stranger_book.h"

#include <optional>

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(StrangerBookTest, APeerWithTooManyLosesItsOwnOldest) {
  StrangerBook book(2);
  EXPECT_EQ(book.Add(1, "a"), std::nullopt);
  EXPECT_EQ(book.Add(2, "b"), std::nullopt);
  EXPECT_EQ(book.Add(3, "a"), std::nullopt);
  EXPECT_EQ(book.Add(4, "a"), 1u);
  EXPECT_EQ(book.Add(5, "a"), 3u);
  EXPECT_EQ(book.size(), 3u);
}

TEST(StrangerBookTest, RoomIsMadeByThePeerThatHasTheMost) {
  StrangerBook book(10);
  book.Add(1, "quiet");
  for (StrangerBook::Id id = 2; id < 8; ++id) book.Add(id, "flood");
  EXPECT_EQ(book.TakeOldest(), 2u);
  EXPECT_EQ(book.TakeOldest(), 3u);
  EXPECT_EQ(book.size(), 5u);
}

TEST(StrangerBookTest, WhoShowedSomethingIsNotInTheWay) {
  StrangerBook book(2);
  book.Add(1, "a");
  book.Add(2, "a");
  EXPECT_TRUE(book.Remove(1));
  EXPECT_FALSE(book.Remove(1));
  EXPECT_EQ(book.Add(3, "a"), std::nullopt);
  EXPECT_EQ(book.Add(4, "a"), 2u);
}

TEST(StrangerBookTest, WhoIsTouchedIsTheNewest) {
  StrangerBook book(2);
  book.Add(1, "a");
  book.Add(2, "a");
  book.Touch(1);
  book.Touch(7);
  EXPECT_EQ(book.Add(3, "a"), 2u);
}

TEST(StrangerBookTest, AnEmptyBookHasNothingToGive) {
  StrangerBook book(0);
  EXPECT_EQ(book.TakeOldest(), std::nullopt);
  EXPECT_EQ(book.Add(1, "a"), std::nullopt);
  EXPECT_EQ(book.TakeOldest(), 1u);
  EXPECT_EQ(book.TakeOldest(), std::nullopt);
}

}  // namespace
}  // namespace warpline
