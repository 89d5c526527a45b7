#include "server/gpu_server/continuity/rest.h"

#include <vector>

#include "gtest/gtest.h"
#include "server/gpu_server/testing/fake_timers.h"
#include "server/gpu_server/testing/fake_worker_place.h"

namespace warpline::server {
namespace {

class RestTest : public ::testing::Test {
 protected:
  void Begin(absl::Duration deadline) {
    rest_.Begin(Rest::Reason::kPaging, deadline,
                [this](const absl::Status& status) { told_.push_back(status); });
  }

  FakeTimers timers_;
  FakeWorkerPlace place_;
  Rest rest_{&timers_, &place_};
  std::vector<absl::Status> told_;
};

TEST_F(RestTest, WorkerWithNothingInFlightIsAtRestAtOnce) {
  place_.Send(3);
  place_.Complete();
  Begin(absl::Seconds(1));
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(told_[0].ok());
  EXPECT_EQ(rest_.reason(), Rest::Reason::kPaging);
  place_.Send(2);
  EXPECT_EQ(place_.waiting(), 2u);
  rest_.Release();
  EXPECT_EQ(place_.waiting(), 0u);
  EXPECT_TRUE(timers_.empty());
}

TEST_F(RestTest, WaitsForWhatIsInFlightAndForNothingThatComes) {
  place_.Send(3);
  Begin(absl::Seconds(1));
  place_.Send(2);
  timers_.Advance(absl::Milliseconds(500));
  EXPECT_TRUE(told_.empty());
  EXPECT_EQ(rest_.reason(), std::nullopt);
  place_.Complete();
  timers_.Advance(absl::Milliseconds(2));
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(told_[0].ok());
  EXPECT_TRUE(place_.frozen());
  EXPECT_EQ(place_.waiting(), 2u);
}

TEST_F(RestTest, WorkerThatDoesNotRestGoesOn) {
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

TEST_F(RestTest, WhatIsForgottenIsNotTold) {
  place_.Send(3);
  Begin(absl::Milliseconds(5));
  rest_.Forget(Rest::Reason::kPaging);
  place_.Complete();
  timers_.Advance(absl::Seconds(1));
  EXPECT_TRUE(told_.empty());
  EXPECT_TRUE(place_.frozen());
  EXPECT_TRUE(timers_.empty());
}

TEST_F(RestTest, MayBeginAgainFromWhatItCalls) {
  place_.Send(1);
  rest_.Begin(Rest::Reason::kPaging, absl::Milliseconds(2), [&](const absl::Status& first) {
    EXPECT_FALSE(first.ok());
    place_.Complete();
    Begin(absl::Milliseconds(2));
  });
  timers_.Advance(absl::Milliseconds(10));
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_TRUE(told_[0].ok());
}

TEST_F(RestTest, ReasonsHaveItOneAfterTheOther) {
  int wanted = 0;
  std::vector<absl::Status> replaced;
  rest_.Begin(
      Rest::Reason::kPaging, absl::Seconds(1),
      [this](const absl::Status& status) { told_.push_back(status); }, [&] { ++wanted; });
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(wanted, 0);
  rest_.Begin(Rest::Reason::kReplacement, absl::Seconds(1),
              [&](const absl::Status& status) { replaced.push_back(status); });
  EXPECT_EQ(wanted, 1);
  EXPECT_TRUE(replaced.empty());
  EXPECT_EQ(rest_.reason(), Rest::Reason::kPaging);
  place_.Send(1);
  rest_.Release();
  ASSERT_EQ(replaced.size(), 1u);
  EXPECT_TRUE(replaced[0].ok());
  EXPECT_EQ(rest_.reason(), Rest::Reason::kReplacement);
  EXPECT_EQ(place_.waiting(), 1u);  // The gate has not opened in between.
  rest_.Release();
  EXPECT_EQ(place_.waiting(), 0u);
  EXPECT_TRUE(timers_.empty());
}

TEST_F(RestTest, WhatWaitsForAnotherReasonGivesUpAtItsDeadline) {
  Begin(absl::Seconds(1));
  std::vector<absl::Status> replaced;
  rest_.Begin(Rest::Reason::kReplacement, absl::Seconds(2),
              [&](const absl::Status& status) { replaced.push_back(status); });
  timers_.Advance(absl::Seconds(3));
  ASSERT_EQ(replaced.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(replaced[0])) << replaced[0];
  EXPECT_EQ(rest_.reason(), Rest::Reason::kPaging);
  EXPECT_TRUE(place_.frozen());
}

TEST_F(RestTest, AReasonThatHasItDoesNotBeginAgain) {
  Begin(absl::Seconds(1));
  Begin(absl::Seconds(1));
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_TRUE(absl::IsFailedPrecondition(told_[1])) << told_[1];
  EXPECT_EQ(rest_.reason(), Rest::Reason::kPaging);
}

TEST_F(RestTest, ForgottenWithAllOthersItLeavesTheGateAsItIs) {
  Begin(absl::Seconds(1));
  rest_.Begin(Rest::Reason::kReplacement, absl::Seconds(2),
              [](const absl::Status&) { FAIL() << "it was forgotten"; });
  rest_.ForgetAll();
  EXPECT_EQ(rest_.reason(), std::nullopt);
  EXPECT_TRUE(place_.frozen());
  EXPECT_TRUE(timers_.empty());
}

}  // namespace
}  // namespace warpline::server
