#include "client_stub/session/waits/limited_wait.h"

#include <algorithm>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

constexpr absl::Duration kLimit = absl::Milliseconds(5);

// A clock that stands still but for naps. Each takes longer than was asked for.
class LateClock {
 public:
  explicit LateClock(absl::Duration most_late) : most_late_(most_late) {}

  absl::Time Now() const { return now_; }
  void Nap(absl::Duration nap) {
    ++naps_;
    std::uniform_real_distribution<double> late(0, 1);
    now_ += nap + most_late_ * late(random_);
  }
  int naps() const { return naps_; }

 private:
  const absl::Duration most_late_;
  absl::Time now_ = absl::UnixEpoch();
  int naps_ = 0;
  std::mt19937 random_{7};
};

bool Await(LateClock* clock, absl::Duration limit, absl::FunctionRef<bool()> over) {
  return AwaitWithin(
      limit, [&] { return clock->Now(); }, over, [&](absl::Duration nap) { clock->Nap(nap); });
}

// A scheduler that is late by up to 2 ms at each nap makes a wait late once: by the last nap.
TEST(LimitedWait, AWaitForWhatNeverEndsIsOverSoonAfterItsDeadline) {
  LateClock clock(absl::Milliseconds(2));
  std::vector<absl::Duration> waits;
  for (int i = 0; i < 1000; ++i) {
    const absl::Time begin = clock.Now();
    EXPECT_FALSE(Await(&clock, kLimit, [] { return false; }));
    waits.push_back(clock.Now() - begin);
  }
  std::sort(waits.begin(), waits.end());
  EXPECT_GE(waits.front(), kLimit);
  EXPECT_LE(waits[989], absl::Milliseconds(8));
  EXPECT_LE(waits.back(), kLimit + LimitedWait::kLongestNap + absl::Milliseconds(2));
}

TEST(LimitedWait, NoNapGoesBeyondTheDeadline) {
  LateClock clock(absl::ZeroDuration());
  EXPECT_FALSE(Await(&clock, kLimit, [] { return false; }));
  EXPECT_EQ(clock.Now() - absl::UnixEpoch(), kLimit);
}

TEST(LimitedWait, WhatIsDoneIsFoundAtTheNextLook) {
  LateClock clock(absl::ZeroDuration());
  const absl::Time done = clock.Now() + absl::Seconds(3);
  EXPECT_TRUE(Await(&clock, absl::Hours(1), [&] { return clock.Now() >= done; }));
  EXPECT_LE(clock.Now() - done, LimitedWait::kLongestNap);
}

TEST(LimitedWait, WithoutTimeItLooksOnce) {
  LateClock clock(absl::ZeroDuration());
  int looks = 0;
  EXPECT_TRUE(Await(&clock, absl::ZeroDuration(), [&] { return ++looks > 0; }));
  EXPECT_FALSE(Await(&clock, absl::ZeroDuration(), [&] { return ++looks < 0; }));
  EXPECT_EQ(looks, 2);
  EXPECT_EQ(clock.naps(), 0);
}

TEST(LimitedWait, WithoutADeadlineItWaitsForAsLongAsItTakes) {
  LateClock clock(absl::ZeroDuration());
  const absl::Time done = clock.Now() + absl::Hours(24);
  EXPECT_TRUE(Await(&clock, absl::InfiniteDuration(), [&] { return clock.Now() >= done; }));
}

}  // namespace
}  // namespace warpline::stub
