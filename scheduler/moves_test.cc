#include "scheduler/moves.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace warpline::scheduler {
namespace {

using State = LeaseMove::State;

const absl::Time kStart = absl::FromUnixSeconds(1800000000);

LeaseMove Move(const std::string& lease, const std::string& from, absl::Time deadline) {
  return {
      .number = 1, .lease = lease, .from = from, .to = "z", .ticket = "t", .deadline = deadline};
}

TEST(MovesTest, AMoveIsUnderWayUntilItIsOver) {
  MoveTable moves;
  EXPECT_EQ(moves.Find("l"), nullptr);
  moves.Begin(Move("l", "a", kStart + kMoveDeadline));
  moves.Begin(Move("m", "a", kStart + kMoveDeadline * 2));
  ASSERT_NE(moves.UnderWay("l"), nullptr);
  EXPECT_EQ(moves.From("a"), (std::set<std::string>{"l", "m"}));
  EXPECT_TRUE(moves.From("z").empty());
  moves.Moved("l", 3, 7, kStart);
  EXPECT_EQ(moves.UnderWay("l"), nullptr);
  EXPECT_EQ(moves.Find("l")->state, State::kMoved);
  EXPECT_EQ(moves.Find("l")->sessions, 3u);
  EXPECT_EQ(moves.Find("l")->bytes, 7u);
  EXPECT_TRUE(moves.Find("l")->ticket.empty());
  EXPECT_EQ(moves.From("a"), std::set<std::string>{"m"});
  // A move that is over stays as it is.
  moves.Failed("l", "why", kStart);
  EXPECT_EQ(moves.Find("l")->state, State::kMoved);
  moves.Failed("m", "why", kStart);
  EXPECT_EQ(moves.Find("m")->why, "why");
  EXPECT_TRUE(moves.From("a").empty());
  moves.Begin(Move("m", "b", kStart));
  EXPECT_EQ(moves.From("b"), std::set<std::string>{"m"});
  EXPECT_TRUE(moves.Find("m")->why.empty());
}

TEST(MovesTest, ThoseThatAreLateAreFoundAndOldOnesForgotten) {
  MoveTable moves;
  moves.Begin(Move("l", "a", kStart + kMoveDeadline));
  EXPECT_TRUE(moves.Late(kStart + kMoveDeadline - absl::Milliseconds(1)).empty());
  EXPECT_EQ(moves.Late(kStart + kMoveDeadline), std::vector<std::string>{"l"});
  moves.Forget(kStart + kMoveMemory * 2);
  EXPECT_NE(moves.Find("l"), nullptr) << "it is under way";
  moves.Failed("l", "late", kStart);
  EXPECT_TRUE(moves.Late(kStart + kMoveDeadline).empty());
  moves.Forget(kStart + kMoveMemory - absl::Milliseconds(1));
  EXPECT_NE(moves.Find("l"), nullptr);
  moves.Forget(kStart + kMoveMemory);
  EXPECT_EQ(moves.Find("l"), nullptr);
}

TEST(MovesTest, OnlySoManyAreRemembered) {
  MoveTable moves;
  moves.Begin(Move("under way", "a", kStart));
  for (size_t i = 0; i < kMostMoves + 10; ++i) {
    const std::string lease = absl::StrCat("l", i);
    moves.Begin(Move(lease, "a", kStart));
    moves.Failed(lease, "why", kStart + absl::Seconds(i));
  }
  EXPECT_NE(moves.Find("under way"), nullptr);
  EXPECT_EQ(moves.Find("l10"), nullptr);
  EXPECT_NE(moves.Find("l11"), nullptr);
}

}  // namespace
}  // namespace warpline::scheduler
