#include "server/worker/host/launch_limit.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "common/steady_time.h"
#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

// A session whose work has been under way since `since`.
struct FakeSession {
  std::atomic<int64_t> since_ns{absl::ToUnixNanos(absl::InfiniteFuture())};
  std::atomic<int> looks{0};
  std::atomic<int> failed{0};
  std::atomic<int> ended{0};
  std::string why;  // Once it has failed.

  LimitedSession session() {
    return {.stalled_since =
                [this] {
                  ++looks;
                  return absl::FromUnixNanos(since_ns);
                },
            .fail =
                [this](const std::string& text) {
                  why = text;
                  ++failed;
                },
            .end = [this] { ++ended; }};
  }
};

TEST(LaunchLimitTest, WhatTakesTooLongIsToldAndThenEnded) {
  FakeSession fake;
  fake.since_ns = absl::ToUnixNanos(SteadyNow() - absl::Hours(1));
  const auto limit = LaunchLimit::Start(fake.session(), absl::Minutes(59), absl::ZeroDuration());
  ASSERT_TRUE(limit.ok());
  while (fake.ended == 0) std::this_thread::yield();
  EXPECT_EQ(fake.failed, 1);
  EXPECT_NE(fake.why.find("longer than 59m"), std::string::npos) << fake.why;
}

TEST(LaunchLimitTest, WhatIsCompleteInTimeGoesOn) {
  FakeSession fake;
  fake.since_ns = absl::ToUnixNanos(SteadyNow());
  {
    const auto limit = LaunchLimit::Start(fake.session(), absl::Hours(1), absl::ZeroDuration());
    ASSERT_TRUE(limit.ok());
    while (fake.looks < 3) std::this_thread::yield();
  }
  EXPECT_EQ(fake.failed + fake.ended, 0);
}

TEST(LaunchLimitTest, ASessionThatEndsMeanwhileIsNotEndedAgain) {
  FakeSession fake;
  fake.since_ns = absl::ToUnixNanos(SteadyNow() - absl::Hours(1));
  {
    const auto limit = LaunchLimit::Start(fake.session(), absl::Minutes(1), absl::Hours(1));
    ASSERT_TRUE(limit.ok());
    while (fake.failed == 0) std::this_thread::yield();
  }
  EXPECT_EQ(fake.ended, 0);
}

TEST(LaunchLimitTest, ItEndsASessionThatIsToEnd) {
  FakeSession fake;
  const auto limit =
      LaunchLimit::Start(fake.session(), absl::InfiniteDuration(), absl::ZeroDuration());
  ASSERT_TRUE(limit.ok());
  (*limit)->EndNow("its stream was cancelled");
  (*limit)->EndNow("again");
  while (fake.ended == 0) std::this_thread::yield();
  EXPECT_EQ(fake.failed, 1);
  EXPECT_EQ(fake.looks, 0);
  EXPECT_EQ(fake.why, "its stream was cancelled");
}

}  // namespace
}  // namespace warpline::worker
