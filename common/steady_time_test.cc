#include "common/steady_time.h"

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(SteadyTimeTest, StartsAtTheWallClockAndNeverGoesBack) {
  absl::Time last = SteadyNow();
  EXPECT_LT(absl::AbsDuration(absl::Now() - last), absl::Minutes(1));
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = SteadyNow();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_LT(last - SteadyNow(), absl::Seconds(1));
}

}  // namespace
}  // namespace warpline
