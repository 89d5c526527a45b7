#include "common/log/keyed_log_budget.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/log/log_budget.h"
#include "common/log/log_capture.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

enum Line : size_t { kOpenedLine, kRefusedLine, kFaultLine };
constexpr LogKind kEach[] = {{"opened", 5, absl::Seconds(10)},
                             {"refused", 2, absl::Seconds(10)},
                             {"faults", 32, absl::Seconds(10)}};
constexpr LogKind kAll[] = {{"opened", 20, absl::Seconds(2)},
                            {"refused", 8, absl::Seconds(2)},
                            {"faults", 64, absl::Seconds(2)}};

class KeyedLogBudgetTest : public ::testing::Test {
 protected:
  KeyedLogBudgetOptions Options(size_t max_keys = 256) {
    KeyedLogBudgetOptions options;
    options.each = kEach;
    options.all = kAll;
    options.max_keys = max_keys;
    options.clock = [this] { return now_ns_; };
    return options;
  }
  // Returns how many of `count` lines are said.
  int Say(KeyedLogBudget* budget, const std::string& key, int count, size_t kind = kOpenedLine) {
    int said = 0;
    for (int i = 0; i < count; ++i) {
      const LogPermit permit = budget->Ask(key, kind);
      if (!permit) continue;
      ++said;
      left_out_ += permit.left_out();
    }
    return said;
  }

  int64_t now_ns_ = 1'000'000'000'000;
  uint64_t left_out_ = 0;
  LogCapture log_;
};

TEST_F(KeyedLogBudgetTest, OnePeersFloodLeavesOthersTheirLines) {
  KeyedLogBudget budget(Options());
  EXPECT_EQ(Say(&budget, "flood", 100'000), 5);
  EXPECT_EQ(Say(&budget, "neighbour", 3), 3);
  EXPECT_EQ(left_out_, 0u);
  now_ns_ += absl::ToInt64Nanoseconds(absl::Seconds(10));
  EXPECT_EQ(Say(&budget, "neighbour", 1), 1);
  EXPECT_EQ(left_out_, 0u) << "the flood's lines are not the neighbour's";
  EXPECT_EQ(Say(&budget, "flood", 1), 1);
  EXPECT_EQ(left_out_, 99'995u);
}

TEST_F(KeyedLogBudgetTest, PeersWithEverNewNamesMeetTheBudgetOfAll) {
  KeyedLogBudget budget(Options());
  int said = 0;
  for (int i = 0; i < 10'000; ++i) said += Say(&budget, absl::StrCat("name", i), 1);
  EXPECT_EQ(said, 20);
  EXPECT_LE(budget.keys(), 256u);
  now_ns_ += absl::ToInt64Nanoseconds(absl::Seconds(2));
  EXPECT_EQ(Say(&budget, "another", 1), 1);
  EXPECT_EQ(left_out_, 9'980u);
}

TEST_F(KeyedLogBudgetTest, PeersThatFloodTogetherLeaveAnotherPeerItsShare) {
  KeyedLogBudget budget(Options());
  int flood = 0;
  for (int i = 0; i < 8; ++i) {
    flood += Say(&budget, absl::StrCat("flood", i), 1000, kFaultLine);
  }
  // The first of them has all of its own lines; each of the others has its share of the half that
  // is kept.
  EXPECT_EQ(flood, 32 + 7 * 2);
  EXPECT_EQ(Say(&budget, "neighbour", 1, kFaultLine), 1);
  EXPECT_EQ(Say(&budget, "neighbour", 10, kFaultLine), 1) << "its share is two lines";
  EXPECT_EQ(Say(&budget, "another", 2, kFaultLine), 2);
}

TEST_F(KeyedLogBudgetTest, PeersThatFloodForeverLeaveAnotherPeerItsShare) {
  KeyedLogBudget budget(Options());
  // Each of 50 peers says a line in ten seconds, five each second, where all together have one in
  // two seconds.
  for (int second = 0; second < 2000; ++second) {
    for (int i = second % 10; i < 50; i += 10) {
      Say(&budget, absl::StrCat("flood", i), 1, kFaultLine);
    }
    now_ns_ += absl::ToInt64Nanoseconds(absl::Seconds(1));
  }
  EXPECT_EQ(Say(&budget, "neighbour", 2, kFaultLine), 2);
}

TEST_F(KeyedLogBudgetTest, WhatAForgottenKeyHadPendingIsNotLost) {
  KeyedLogBudget budget(Options(/*max_keys=*/2));
  EXPECT_EQ(Say(&budget, "a", 15), 5);
  Say(&budget, "b", 1);
  Say(&budget, "c", 1);
  EXPECT_EQ(budget.keys(), 2u);
  EXPECT_EQ(left_out_, 10u);
}

TEST_F(KeyedLogBudgetTest, WhatIsPendingCanBeTakenForAllKeys) {
  KeyedLogBudget budget(Options(/*max_keys=*/2));
  Say(&budget, "forgotten", 15);
  Say(&budget, "a", 15);
  // One line is kept for this key, which has had none yet.
  EXPECT_EQ(Say(&budget, "b", 7), 1);
  EXPECT_EQ(budget.TakeLeftOut(kOpenedLine) + left_out_, 26u);
  EXPECT_EQ(budget.TakeLeftOut(kOpenedLine), 0u);
  EXPECT_EQ(budget.TakeLeftOut(kRefusedLine), 0u);
}

TEST_F(KeyedLogBudgetTest, WhatIsPendingAtTheEndIsSaidInOneLine) {
  {
    KeyedLogBudget budget(Options());
    Say(&budget, "a", 15);
    Say(&budget, "b", 7);
    Say(&budget, "b", 10, kRefusedLine);
  }
  EXPECT_EQ(log_.LinesWith("left out").size(), 1u);
  EXPECT_EQ(log_.LinesWith("log lines left out opened=12 refused=8").size(), 1u) << log_.Text();
}

}  // namespace
}  // namespace warpline
