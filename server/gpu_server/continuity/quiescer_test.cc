#include "server/gpu_server/continuity/quiescer.h"

#include <vector>

#include "gtest/gtest.h"
#include "server/gpu_server/testing/fake_timers.h"
#include "server/gpu_server/testing/fake_worker_place.h"

namespace warpline::server {
namespace {

class QuiescerTest : public ::testing::Test {
 protected:
  void Begin(absl::Duration deadline) {
    quiescer_.Begin(deadline, [this](const absl::Status& status) { told_.push_back(status); });
  }

  FakeTimers timers_;
  FakeWorkerPlace place_;
  Quiescer quiescer_{&timers_, &place_};
  std::vector<absl::Status> told_;
};

TEST_F(QuiescerTest, WorkerWithNothingInFlightIsAtRestAtOnce) {
  place_.Send(3);
  place_.Complete();
  Begin(absl::Seconds(1));
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(told_[0].ok());
  EXPECT_FALSE(quiescer_.under_way());
  place_.Send(2);
  EXPECT_EQ(place_.waiting(), 2u);
  quiescer_.Release();
  EXPECT_EQ(place_.waiting(), 0u);
  EXPECT_TRUE(timers_.empty());
}

TEST_F(QuiescerTest, WaitsForWhatIsInFlightAndForNothingThatComes) {
  place_.Send(3);
  Begin(absl::Seconds(1));
  place_.Send(2);
  timers_.Advance(absl::Milliseconds(500));
  EXPECT_TRUE(told_.empty());
  EXPECT_TRUE(quiescer_.under_way());
  place_.Complete();
  timers_.Advance(absl::Milliseconds(2));
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(told_[0].ok());
  EXPECT_TRUE(place_.frozen());
  EXPECT_EQ(place_.waiting(), 2u);
}

TEST_F(QuiescerTest, WorkerThatDoesNotRestGoesOn) {
  place_.Send(3);
  Begin(absl::Milliseconds(5));
  place_.Send(2);
  timers_.Advance(absl::Milliseconds(5));
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(told_[0])) << told_[0];
  EXPECT_FALSE(place_.frozen());
  EXPECT_EQ(place_.waiting(), 0u);
  EXPECT_TRUE(timers_.empty());
}

TEST_F(QuiescerTest, WhatIsForgottenIsNotTold) {
  place_.Send(3);
  Begin(absl::Milliseconds(5));
  quiescer_.Forget();
  place_.Complete();
  timers_.Advance(absl::Seconds(1));
  EXPECT_TRUE(told_.empty());
  EXPECT_TRUE(place_.frozen());
  EXPECT_TRUE(timers_.empty());
}

TEST_F(QuiescerTest, MayBeginAgainFromWhatItCalls) {
  place_.Send(1);
  quiescer_.Begin(absl::Milliseconds(2), [&](const absl::Status& first) {
    EXPECT_FALSE(first.ok());
    place_.Complete();
    Begin(absl::Milliseconds(2));
  });
  timers_.Advance(absl::Milliseconds(10));
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(told_[0].ok());
}

}  // namespace
}  // namespace warpline::server
