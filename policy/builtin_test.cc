#include "policy/builtin.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "policy/band.h"

namespace warpline::policy {
namespace {

DispatchContext Slice(int64_t credit_ns, uint32_t used_share = 500, uint32_t bw_share = 500) {
  DispatchContext context;
  context.credit_ns = credit_ns;
  context.used_share = used_share;
  context.bw_share = bw_share;
  return context;
}

TEST(Band, StepsBackOnlyWhenCreditAndShareAreBothUsedUp) {
  Band band;
  EXPECT_EQ(band.OnDispatch(Slice(-1000, 501)).action, Action::kSkip);
  EXPECT_EQ(band.OnDispatch(Slice(-1000, 499)).action, Action::kScore);
  EXPECT_EQ(band.OnDispatch(Slice(1000, 501)).action, Action::kScore);
}

TEST(Band, MostCreditGoesFirst) {
  Band band;
  EXPECT_GT(band.OnDispatch(Slice(2'000'000)).argument, band.OnDispatch(Slice(1'000'000)).argument);
  EXPECT_GT(band.OnDispatch(Slice(0)).argument, band.OnDispatch(Slice(-1'000'000)).argument);
  EXPECT_GE(ScoreOfCredit(INT64_MAX), ScoreOfCredit(1));
  EXPECT_LE(ScoreOfCredit(INT64_MIN), ScoreOfCredit(-1));
}

TEST(Band, YieldsToWhoHadLessThanHalfOfItsShare) {
  Band band;
  PreemptContext context;
  context.elapsed_ns = 3'000'000;
  context.waiting_bw_share = 500;
  context.waiting_used_share = 100;
  EXPECT_EQ(band.OnPreempt(context).action, Action::kYield);
  context.elapsed_ns = 1'000'000;
  EXPECT_EQ(band.OnPreempt(context).action, Action::kKeep) << "the turn has only begun";
  context.elapsed_ns = 3'000'000;
  context.waiting_used_share = 300;
  EXPECT_EQ(band.OnPreempt(context).action, Action::kKeep);
  context.waiting_used_share = 100;
  context.waiting_credit_ns = -1;
  EXPECT_EQ(band.OnPreempt(context).action, Action::kKeep);
}

TEST(StrictPriority, WaitsForWhoeverIsMoreUrgent) {
  StrictPriority priority;
  DispatchContext context = Slice(0);
  EXPECT_EQ(priority.OnDispatch(context).action, Action::kScore);
  context.more_urgent_waiting = 1;
  EXPECT_EQ(priority.OnDispatch(context).action, Action::kSkip);
  PreemptContext running;
  running.priority = 1;
  running.waiting_priority = 1;
  EXPECT_EQ(priority.OnPreempt(running).action, Action::kKeep);
  running.waiting_priority = 2;
  EXPECT_EQ(priority.OnPreempt(running).action, Action::kYield);
}

TEST(EarliestDeadline, WhatIsDueFirstGoesFirst) {
  EarliestDeadline edf;
  DispatchContext often = Slice(0);
  often.period_ns = 10'000'000;
  DispatchContext seldom = Slice(0);
  seldom.period_ns = 100'000'000;
  EXPECT_GT(edf.OnDispatch(often).argument, edf.OnDispatch(seldom).argument);
  seldom.wait_ns = 95'000'000;
  EXPECT_LT(edf.OnDispatch(often).argument, edf.OnDispatch(seldom).argument);
  // Who has no period is due in a second.
  EXPECT_LT(edf.OnDispatch(Slice(0)).argument, edf.OnDispatch(often).argument);
  seldom.wait_ns = 200'000'000;
  EXPECT_EQ(edf.OnDispatch(seldom).argument, UINT32_MAX) << "what is late is due now";
}

TEST(Wishes, OnlyPoliciesThatKnowWhoIsUrgentExpectAnybody) {
  for (const std::string& name : PolicyNames()) {
    EXPECT_EQ((*MakePolicy(name))->wishes().expects, name == "priority" || name == "reservation")
        << name;
  }
}

TEST(FinishTimeFairness, WhoIsFurthestBehindGoesFirst) {
  FinishTimeFairness fairness;
  DispatchContext behind = Slice(0);
  behind.active_ns = 1'000'000'000;
  behind.attained_ns = 100'000'000;
  DispatchContext ahead = behind;
  ahead.attained_ns = 600'000'000;
  EXPECT_GT(fairness.OnDispatch(behind).argument, fairness.OnDispatch(ahead).argument);
}

TEST(MakePolicy, KnowsItsNames) {
  for (const std::string& name : PolicyNames()) {
    const auto policy = MakePolicy(name);
    ASSERT_TRUE(policy.ok()) << name;
    EXPECT_EQ((*policy)->name(), name);
  }
  EXPECT_EQ(PolicyNames().front(), "band");
  EXPECT_EQ(PolicyNames().back(), "reservation");
  EXPECT_FALSE(MakePolicy("").ok());
}

}  // namespace
}  // namespace warpline::policy
