#include "server/gpu_server/children/workers/recovery.h"

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "server/gpu_server/testing/fake_timers.h"

namespace warpline::server {
namespace {

class RecoveryTest : public testing::Test {
 protected:
  std::shared_ptr<Recovery> Begin() {
    return std::make_shared<Recovery>(
        &timers_, [this] { return now_; },
        [this](const Recovery::Outcome& outcome) { outcomes_.push_back(outcome); });
  }

  FakeTimers timers_;
  absl::Time now_ = absl::UnixEpoch();
  std::vector<Recovery::Outcome> outcomes_;
};

TEST_F(RecoveryTest, EndsWithTheLastSessionAndLastsUntilTheLastThatWentOn) {
  auto recovery = Begin();
  auto first = recovery->Join();
  auto second = recovery->Join();
  auto lost = recovery->Join();
  auto left = recovery->Join();
  recovery.reset();
  now_ += absl::Milliseconds(200);
  first->WentOn();
  now_ += absl::Milliseconds(300);
  second->WentOn();
  now_ += absl::Seconds(5);
  lost->Lost();
  EXPECT_TRUE(outcomes_.empty());
  left.reset();
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_EQ(outcomes_[0].went_on, 2u);
  EXPECT_EQ(outcomes_[0].lost, 1u);
  EXPECT_EQ(outcomes_[0].left, 1u);
  EXPECT_EQ(outcomes_[0].took, absl::Milliseconds(500));
}

TEST_F(RecoveryTest, WaitsForTheProcessWhichMayTellMoreSessions) {
  auto recovery = Begin();
  recovery->Join()->Lost();
  EXPECT_TRUE(outcomes_.empty());
  recovery->Join()->WentOn();
  recovery.reset();
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_EQ(outcomes_[0].lost, 1u);
  EXPECT_EQ(outcomes_[0].went_on, 1u);
}

TEST_F(RecoveryTest, WhatCanWaitWaitsForThoseWhoGoOn) {
  auto recovery = Begin();
  auto goes_on = recovery->Join();
  const std::weak_ptr<Recovery> others = recovery->Join()->Lost();
  recovery.reset();
  int calls = 0;
  others.lock()->WhenOver([&] { ++calls; });
  EXPECT_EQ(calls, 0);
  goes_on->WentOn();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(others.expired());
  timers_.Advance(2 * Recovery::kLongestWait);
  EXPECT_EQ(calls, 1);
}

TEST_F(RecoveryTest, NothingWaitsForLong) {
  auto recovery = Begin();
  const auto stays = recovery->Join();
  int calls = 0;
  recovery->WhenOver([&] { ++calls; });
  recovery->WhenOver([&] { ++calls; });
  timers_.Advance(Recovery::kLongestWait - absl::Milliseconds(1));
  EXPECT_EQ(calls, 0);
  timers_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(calls, 2);
  recovery->WhenOver([&] { ++calls; });
  timers_.Advance(Recovery::kLongestWait);
  EXPECT_EQ(calls, 3);
}

TEST_F(RecoveryTest, OfNobodyIsNotTold) {
  Begin().reset();
  EXPECT_TRUE(outcomes_.empty());
}

}  // namespace
}  // namespace warpline::server
