#include "server/worker/order/stall_clock.h"

#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

class StallClockTest : public testing::Test {
 protected:
  // Looks at so many seconds; returns the second since which nothing moves, or -1.
  double Look(double at, const std::vector<LaneWork>& lanes) {
    const absl::Time since = clock_.Look(lanes, absl::UnixEpoch() + absl::Seconds(at));
    if (since == absl::InfiniteFuture()) return -1;
    return absl::ToDoubleSeconds(since - absl::UnixEpoch());
  }

  StallClock clock_;
  const int one_ = 0, other_ = 0;
};

TEST_F(StallClockTest, NothingUnderWayStallsNever) {
  EXPECT_EQ(Look(1, {}), -1);
  EXPECT_EQ(Look(2, {{&one_, 7, 7}}), -1);
}

TEST_F(StallClockTest, CountsFromTheFirstLookAtWhichNothingMoved) {
  EXPECT_EQ(Look(1, {{&one_, 8, 7}}), 1);
  EXPECT_EQ(Look(5, {{&one_, 9, 7}}), 1) << "more to do is no progress";
  EXPECT_EQ(Look(6, {{&one_, 9, 8}}), 6);
  EXPECT_EQ(Look(7, {{&one_, 9, 9}}), -1);
  EXPECT_EQ(Look(8, {{&one_, 10, 9}}), 8);
}

TEST_F(StallClockTest, TheLaneThatStallsTheLongestCounts) {
  EXPECT_EQ(Look(1, {{&one_, 8, 7}, {&other_, 3, 3}}), 1);
  EXPECT_EQ(Look(2, {{&one_, 8, 7}, {&other_, 4, 3}}), 1);
  EXPECT_EQ(Look(3, {{&one_, 8, 8}, {&other_, 4, 3}}), 2);
}

TEST_F(StallClockTest, ALaneThatIsGoneIsForgotten) {
  EXPECT_EQ(Look(1, {{&one_, 8, 7}}), 1);
  EXPECT_EQ(Look(2, {}), -1);
  EXPECT_EQ(Look(3, {{&one_, 8, 7}}), 3);
}

}  // namespace
}  // namespace warpline::worker
