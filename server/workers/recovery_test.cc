#include "server/workers/recovery.h"

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace warpline::server {
namespace {

class RecoveryTest : public testing::Test {
 protected:
  std::shared_ptr<Recovery> Begin() {
    return std::make_shared<Recovery>(
        [this] { return now_; },
        [this](const Recovery::Outcome& outcome) { outcomes_.push_back(outcome); });
  }

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

TEST_F(RecoveryTest, OfNobodyIsNotTold) {
  Begin().reset();
  EXPECT_TRUE(outcomes_.empty());
}

}  // namespace
}  // namespace warpline::server
