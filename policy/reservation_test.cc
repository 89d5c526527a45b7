#include "policy/reservation.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace warpline::policy {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint64_t kNow = 1'000'000'000;

DispatchContext Slice(int64_t budget_left_ns, uint64_t deadline_ns = 0) {
  DispatchContext context;
  context.head.now_ns = kNow;
  context.bw_share = 500;
  context.budget_left_ns = budget_left_ns;
  context.deadline_ns = deadline_ns;
  return context;
}

uint32_t ScoreOf(const DispatchContext& context) {
  Reservation reservation;
  const Verdict verdict = reservation.OnDispatch(context);
  EXPECT_EQ(verdict.action, Action::kScore);
  return verdict.argument;
}

TEST(Reservation, WithinItsBudgetASliceGoesBeforeAnyThatHasNone) {
  DispatchContext rich = Slice(0);
  rich.credit_ns = INT64_MAX;
  EXPECT_GT(ScoreOf(Slice(1, kNow + 3'000 * kMs)), ScoreOf(rich));
  EXPECT_GT(ScoreOf(Slice(1, UINT64_MAX)), ScoreOf(rich));
}

TEST(Reservation, OfThoseWithinTheirBudgetsTheEarliestDeadlineIsFirst) {
  EXPECT_GT(ScoreOf(Slice(kMs, kNow + 5 * kMs)), ScoreOf(Slice(9 * kMs, kNow + 6 * kMs)));
  EXPECT_GT(ScoreOf(Slice(kMs, kNow - 5 * kMs)), ScoreOf(Slice(kMs, kNow + kMs)));
}

TEST(Reservation, BeyondItsBudgetASliceIsAsAnyOtherByWeight) {
  Reservation reservation;
  DispatchContext richer = Slice(-5 * kMs, kNow + kMs);
  richer.credit_ns = 2 * kMs;
  DispatchContext poorer = Slice(0);
  poorer.credit_ns = kMs;
  EXPECT_GT(ScoreOf(richer), ScoreOf(poorer));
  poorer.credit_ns = -kMs;
  poorer.used_share = 600;
  EXPECT_EQ(reservation.OnDispatch(poorer).action, Action::kSkip);
}

PreemptContext Running(int64_t budget_left_ns, uint64_t deadline_ns, bool turn_is_reserved) {
  PreemptContext context;
  context.elapsed_ns = static_cast<uint64_t>(3 * kMs);
  context.waiting_bw_share = 500;
  context.waiting_used_share = 400;
  context.budget_left_ns = budget_left_ns;
  context.deadline_ns = deadline_ns;
  context.turn_is_reserved = turn_is_reserved ? 1 : 0;
  return context;
}

Action AskedAbout(const PreemptContext& context) {
  Reservation reservation;
  return reservation.OnPreempt(context).action;
}

TEST(Reservation, WhatRunsYieldsToABudgetWithAnEarlierDeadline) {
  PreemptContext context = Running(0, 0, false);
  EXPECT_EQ(AskedAbout(context), Action::kKeep);
  context.waiting_deadline_ns = kNow + kMs;
  EXPECT_EQ(AskedAbout(context), Action::kYield) << "it has no reservation";
  context = Running(kMs, kNow + 2 * kMs, true);
  context.waiting_deadline_ns = kNow + kMs;
  EXPECT_EQ(AskedAbout(context), Action::kYield);
  context.waiting_deadline_ns = kNow + 3 * kMs;
  EXPECT_EQ(AskedAbout(context), Action::kKeep);
  context.budget_left_ns = -1;
  EXPECT_EQ(AskedAbout(context), Action::kYield) << "its budget is used up";
}

TEST(Reservation, AtTheEndOfItsBudgetASliceYieldsToAnybody) {
  EXPECT_EQ(AskedAbout(Running(1, kNow, true)), Action::kKeep);
  EXPECT_EQ(AskedAbout(Running(0, kNow, true)), Action::kYield);
  EXPECT_EQ(AskedAbout(Running(-kMs, kNow, false)), Action::kKeep)
      << "a turn that it has by its weight";
}

TEST(Reservation, WithinItsBudgetASliceDoesNotYieldToWhoIsStarved) {
  PreemptContext context = Running(0, 0, false);
  context.waiting_used_share = 100;
  EXPECT_EQ(AskedAbout(context), Action::kYield);
  context = Running(kMs, kNow, true);
  context.waiting_used_share = 100;
  EXPECT_EQ(AskedAbout(context), Action::kKeep);
}

TEST(Reservation, OnlyThoseWithABudgetAreWorthALimitBeforeTheyCome) {
  PreemptContext context = Running(0, 0, false);
  context.level = 0;
  context.waiting_used_share = 0;
  context.waiting_priority = 10;
  EXPECT_EQ(AskedAbout(context), Action::kKeep);
  context.waiting_deadline_ns = kNow + 10 * kMs;
  EXPECT_EQ(AskedAbout(context), Action::kYield);
}

}  // namespace
}  // namespace warpline::policy
