#include "server/gpu_server/dispatch/accounts/reservation_account.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace warpline::dispatch {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kStart = 1000 * kMs;

// Four milliseconds of each ten.
class ReservationAccountTest : public testing::Test {
 protected:
  void At(int64_t ms, bool wants) { account_.See(wants, kStart + ms * kMs); }
  void Use(int64_t ms) { account_.Charge(ms * kMs); }
  int64_t deadline_ms() const { return (account_.deadline_ns() - kStart) / kMs; }
  int64_t left_ms() const { return account_.left_ns() / kMs; }

  ReservationAccount account_{10 * kMs, 4 * kMs};
};

TEST_F(ReservationAccountTest, APeriodBeginsWhenTheContenderComes) {
  At(0, false);
  EXPECT_EQ(account_.deadline_ns(), 0);
  At(3, true);
  EXPECT_EQ(deadline_ms(), 13);
  EXPECT_EQ(left_ms(), 4);
  Use(4);
  EXPECT_FALSE(account_.within_budget());
  At(8, false);
  At(14, false);
  At(15, true);
  EXPECT_EQ(left_ms(), 4);
  EXPECT_EQ(deadline_ms(), 25);
}

TEST_F(ReservationAccountTest, WhoIsThereAllTheTimeHasItsBudgetInEachPeriod) {
  At(0, true);
  for (int period = 0; period < 5; ++period) {
    EXPECT_EQ(deadline_ms(), 10 * (period + 1));
    Use(4);
    At(10 * period + 9, true);
    EXPECT_FALSE(account_.within_budget());
    At(10 * period + 10, true);
    EXPECT_EQ(left_ms(), 4);
  }
}

TEST_F(ReservationAccountTest, WhatIsUsedBeyondTheBudgetIsOwed) {
  At(0, true);
  account_.BeginTurn();
  Use(11);
  EXPECT_EQ(left_ms(), -7);
  At(10, true);
  EXPECT_EQ(left_ms(), -3);
  EXPECT_FALSE(account_.within_budget());
  At(20, true);
  EXPECT_EQ(left_ms(), 1);
  EXPECT_EQ(deadline_ms(), 30);
}

TEST_F(ReservationAccountTest, DebtsAreSettledAtRestAndBudgetsDoNotAddUp) {
  At(0, true);
  account_.BeginTurn();
  Use(11);
  At(11, false);
  At(500, false);
  EXPECT_EQ(left_ms(), 4);
  At(505, false);
  At(511, false);
  EXPECT_EQ(account_.deadline_ns(), 0);
  At(517, true);
  EXPECT_EQ(deadline_ms(), 527);
  EXPECT_EQ(left_ms(), 4);
}

TEST_F(ReservationAccountTest, TurnsThatItHasByItsWeightAreNotCharged) {
  At(0, true);
  account_.BeginTurn();
  EXPECT_TRUE(account_.reserved_turn());
  Use(4);
  account_.BeginTurn();
  EXPECT_FALSE(account_.reserved_turn());
  Use(5);
  EXPECT_EQ(left_ms(), 0);
  At(10, true);
  EXPECT_EQ(left_ms(), 4);
}

// Without that, 4 ms at the end of one period and 4 at the beginning of the next would be 8 of 8.
TEST_F(ReservationAccountTest, TwoBudgetsAreNotUsedOneAfterTheOther) {
  At(0, true);
  At(1, false);
  At(6, true);
  EXPECT_EQ(left_ms(), 4);
  EXPECT_EQ(deadline_ms(), 16) << "a period of its own";
  Use(4);
  At(10, true);
  EXPECT_FALSE(account_.within_budget());
  // Who has used its part goes on in its period.
  At(16, true);
  Use(3);
  At(19, false);
  At(20, true);
  EXPECT_EQ(left_ms(), 1);
  EXPECT_EQ(deadline_ms(), 26);
}

TEST_F(ReservationAccountTest, WhatThereWillBeIsKnownBefore) {
  At(0, true);
  account_.BeginTurn();
  Use(5);
  At(5, false);
  EXPECT_FALSE(account_.WithinBudgetAt(kStart + 9 * kMs));
  EXPECT_TRUE(account_.WithinBudgetAt(kStart + 10 * kMs));
  At(6, true);
  Use(10);
  EXPECT_FALSE(account_.WithinBudgetAt(kStart + 20 * kMs));
  EXPECT_TRUE(account_.WithinBudgetAt(kStart + 30 * kMs));
}

TEST_F(ReservationAccountTest, WithoutAReservationThereIsNoBudget) {
  ReservationAccount none(0, 0);
  none.See(true, kStart);
  none.BeginTurn();
  none.Charge(kMs);
  EXPECT_FALSE(none.within_budget());
  EXPECT_FALSE(none.WithinBudgetAt(kStart + kMs));
  EXPECT_FALSE(none.reserved_turn());
  EXPECT_EQ(none.deadline_ns(), 0);
  EXPECT_EQ(none.left_ns(), 0);
}

}  // namespace
}  // namespace warpline::dispatch
