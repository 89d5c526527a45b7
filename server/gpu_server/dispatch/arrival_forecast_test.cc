#include "server/gpu_server/dispatch/arrival_forecast.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace warpline::dispatch {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kStepNs = 100'000;
constexpr int64_t kLeadNs = 2 * kMs;

// A contender that is looked at every 100 us.
class ArrivalForecastTest : public testing::Test {
 protected:
  // Does nothing until then.
  void RestUntil(int64_t at_ns) {
    for (; now_ns_ < at_ns; now_ns_ += kStepNs) {
      if (forecast_.Expects(now_ns_, kLeadNs)) ++expected_;
      forecast_.See(false, false, now_ns_);
    }
  }
  // Comes now, waits and works for so long.
  void Come(int64_t waits_ns = kStepNs, int64_t works_ns = 2 * kMs) {
    const int64_t works_from_ns = now_ns_ + waits_ns;
    const int64_t end_ns = works_from_ns + works_ns;
    for (; now_ns_ < works_from_ns; now_ns_ += kStepNs) forecast_.See(true, false, now_ns_);
    for (; now_ns_ < end_ns; now_ns_ += kStepNs) forecast_.See(true, true, now_ns_);
  }
  // Comes as often as it takes for a forecast, at multiples of the period.
  void Settle(int64_t period_ns = 10 * kMs) {
    for (size_t i = 0; i <= ArrivalForecast::kIntervals; ++i) {
      Come();
      RestUntil(now_ns_ / period_ns * period_ns + period_ns);
    }
  }

  ArrivalForecast forecast_;
  int64_t now_ns_ = 1000 * kMs;
  int expected_ = 0;  // At how many looks while it rested.
};

TEST_F(ArrivalForecastTest, WhoComesRegularlyIsExpectedShortlyBefore) {
  Settle();
  EXPECT_EQ(forecast_.period_ns(), 10 * kMs);
  EXPECT_EQ(forecast_.next_ns(), now_ns_);
  Come();
  const int64_t next_ns = forecast_.next_ns();
  EXPECT_FALSE(forecast_.Expects(next_ns - 2 * kMs - 1, kLeadNs));
  EXPECT_TRUE(forecast_.Expects(next_ns - 2 * kMs, kLeadNs));
  EXPECT_TRUE(forecast_.Expects(next_ns + 1 * kMs, kLeadNs));
  EXPECT_FALSE(forecast_.Expects(next_ns + 1 * kMs + 1, kLeadNs));
}

TEST_F(ArrivalForecastTest, ItTakesNineArrivals) {
  for (size_t i = 0; i < ArrivalForecast::kIntervals; ++i) {
    Come();
    EXPECT_EQ(forecast_.period_ns(), 0);
    RestUntil(now_ns_ / (10 * kMs) * 10 * kMs + 10 * kMs);
  }
  Come();
  EXPECT_EQ(forecast_.period_ns(), 10 * kMs);
}

TEST_F(ArrivalForecastTest, HowLongItWaitsAndWorksDoesNotMatter) {
  for (int i = 0; i < 20; ++i) {
    Come((i * 7 % 5) * kMs, (1 + i * 3 % 4) * kMs);
    RestUntil(now_ns_ / (10 * kMs) * 10 * kMs + 10 * kMs);
  }
  EXPECT_EQ(forecast_.period_ns(), 10 * kMs);
  EXPECT_EQ(forecast_.next_ns(), now_ns_);
}

TEST_F(ArrivalForecastTest, PausesWithinAPieceOfWorkAreNoArrivals) {
  for (int i = 0; i < 10; ++i) {
    Come();
    RestUntil(now_ns_ + 500'000);
    Come();
    RestUntil(now_ns_ / (10 * kMs) * 10 * kMs + 10 * kMs);
  }
  EXPECT_EQ(forecast_.period_ns(), 10 * kMs);
}

TEST_F(ArrivalForecastTest, OneThatIsLateMovesNothing) {
  Settle();
  RestUntil(now_ns_ + 3 * kMs);
  Come();
  EXPECT_EQ(forecast_.period_ns(), 10 * kMs);
  EXPECT_EQ(forecast_.next_ns(), 1100 * kMs);
}

TEST_F(ArrivalForecastTest, OneThatIsMissedBecauseTheFormerTookLongMovesNothing) {
  Settle();
  Come(kStepNs, 15 * kMs);
  EXPECT_EQ(forecast_.period_ns(), 10 * kMs);
  EXPECT_EQ(forecast_.next_ns(), 1110 * kMs);
  RestUntil(1110 * kMs);
  Come();
  EXPECT_EQ(forecast_.next_ns(), 1120 * kMs);
}

TEST_F(ArrivalForecastTest, WhoComesAtRandomIsNotExpected) {
  uint64_t random = 1;
  for (int i = 0; i < 200; ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    Come();
    RestUntil(now_ns_ + 2 * kMs + static_cast<int64_t>(random >> 33) % (30 * kMs));
  }
  EXPECT_LE(expected_, 200) << "of some 34,000 looks";
}

TEST_F(ArrivalForecastTest, WhoIsAlwaysThereOrSeldomIsNotExpected) {
  Settle(3 * kMs);
  EXPECT_EQ(forecast_.period_ns(), 0);
  Settle(200 * kMs);
  EXPECT_EQ(forecast_.period_ns(), 0);
}

TEST_F(ArrivalForecastTest, ItIsExpectedForHalfOfTheTimeAtMost) {
  for (const int64_t period_ns : {4 * kMs, 5 * kMs, 10 * kMs}) {
    forecast_.Forget();
    Settle(period_ns);
    const int64_t start_ns = now_ns_;
    int looks = 0;
    // It does not come: expected are what is left of this one, and the beginning of the next.
    for (; now_ns_ < start_ns + period_ns; now_ns_ += 1000) {
      looks += forecast_.Expects(now_ns_, kLeadNs);
      forecast_.See(false, false, now_ns_);
    }
    EXPECT_LE(looks * 1000, period_ns / 2 + 2000) << period_ns;
  }
}

TEST_F(ArrivalForecastTest, WhoDoesNotComeThreeTimesIsForgotten) {
  Settle();
  expected_ = 0;
  RestUntil(now_ns_ + 1000 * kMs);
  EXPECT_EQ(forecast_.period_ns(), 0);
  // The first one from when it was due, then two whole ones.
  EXPECT_EQ(expected_, 11 + 2 * 31);
}

TEST_F(ArrivalForecastTest, WhoSaysThatItWaitsAndDoesNotWorkIsForgotten) {
  Settle();
  for (const int64_t end_ns = now_ns_ + 2 * kMs; now_ns_ < end_ns; now_ns_ += kStepNs) {
    forecast_.See(true, false, now_ns_);
  }
  RestUntil(now_ns_ + kMs);
  EXPECT_EQ(forecast_.period_ns(), 0);
}

}  // namespace
}  // namespace warpline::dispatch
