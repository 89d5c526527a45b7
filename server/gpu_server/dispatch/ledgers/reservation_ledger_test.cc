#include "server/gpu_server/dispatch/ledgers/reservation_ledger.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace warpline::dispatch {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kStart = 1000 * kMs;

// Four milliseconds of each ten.
class ReservationLedgerTest : public testing::Test {
 protected:
  void At(int64_t ms, bool wants) { ledger_.See(wants, kStart + ms * kMs); }
  void Use(int64_t ms) { ledger_.Charge(ms * kMs); }
  int64_t deadline_ms() const { return (ledger_.deadline_ns() - kStart) / kMs; }
  int64_t left_ms() const { return ledger_.left_ns() / kMs; }

  ReservationLedger ledger_{10 * kMs, 4 * kMs};
};

TEST_F(ReservationLedgerTest, APeriodBeginsWhenTheContenderComes) {
  At(0, false);
  EXPECT_EQ(ledger_.deadline_ns(), 0);
  At(3, true);
  EXPECT_EQ(deadline_ms(), 13);
  EXPECT_EQ(left_ms(), 4);
  Use(4);
  EXPECT_FALSE(ledger_.within_budget());
  At(8, false);
  At(14, false);
  At(15, true);
  EXPECT_EQ(left_ms(), 4);
  EXPECT_EQ(deadline_ms(), 25);
}

TEST_F(ReservationLedgerTest, WhoIsThereAllTheTimeHasItsBudgetInEachPeriod) {
  At(0, true);
  for (int period = 0; period < 5; ++period) {
    EXPECT_EQ(deadline_ms(), 10 * (period + 1));
    Use(4);
    At(10 * period + 9, true);
    EXPECT_FALSE(ledger_.within_budget());
    At(10 * period + 10, true);
    EXPECT_EQ(left_ms(), 4);
  }
}

TEST_F(ReservationLedgerTest, WhatIsUsedBeyondTheBudgetIsOwed) {
  At(0, true);
  ledger_.BeginTurn();
  Use(11);
  EXPECT_EQ(left_ms(), -7);
  At(10, true);
  EXPECT_EQ(left_ms(), -3);
  EXPECT_FALSE(ledger_.within_budget());
  At(20, true);
  EXPECT_EQ(left_ms(), 1);
  EXPECT_EQ(deadline_ms(), 30);
}

TEST_F(ReservationLedgerTest, DebtsAreSettledAtRestAndBudgetsDoNotAddUp) {
  At(0, true);
  ledger_.BeginTurn();
  Use(11);
  At(11, false);
  At(500, false);
  EXPECT_EQ(left_ms(), 4);
  At(505, false);
  At(511, false);
  EXPECT_EQ(ledger_.deadline_ns(), 0);
  At(517, true);
  EXPECT_EQ(deadline_ms(), 527);
  EXPECT_EQ(left_ms(), 4);
}

TEST_F(ReservationLedgerTest, TurnsThatItHasByItsWeightAreNotCharged) {
  At(0, true);
  ledger_.BeginTurn();
  EXPECT_TRUE(ledger_.reserved_turn());
  Use(4);
  ledger_.BeginTurn();
  EXPECT_FALSE(ledger_.reserved_turn());
  Use(5);
  EXPECT_EQ(left_ms(), 0);
  At(10, true);
  EXPECT_EQ(left_ms(), 4);
}

// Without that, 4 ms at the end of one period and 4 at the beginning of the next would be 8 of 8.
TEST_F(ReservationLedgerTest, TwoBudgetsAreNotUsedOneAfterTheOther) {
  At(0, true);
  At(1, false);
  At(6, true);
  EXPECT_EQ(left_ms(), 4);
  EXPECT_EQ(deadline_ms(), 16) << "a period of its own";
  Use(4);
  At(10, true);
  EXPECT_FALSE(ledger_.within_budget());
  // Who has used its part goes on in its period.
  At(16, true);
  Use(3);
  At(19, false);
  At(20, true);
  EXPECT_EQ(left_ms(), 1);
  EXPECT_EQ(deadline_ms(), 26);
}

TEST_F(ReservationLedgerTest, WhatThereWillBeIsKnownBefore) {
  At(0, true);
  ledger_.BeginTurn();
  Use(5);
  At(5, false);
  EXPECT_FALSE(ledger_.WithinBudgetAt(kStart + 9 * kMs));
  EXPECT_TRUE(ledger_.WithinBudgetAt(kStart + 10 * kMs));
  At(6, true);
  Use(10);
  EXPECT_FALSE(ledger_.WithinBudgetAt(kStart + 20 * kMs));
  EXPECT_TRUE(ledger_.WithinBudgetAt(kStart + 30 * kMs));
}

TEST_F(ReservationLedgerTest, WithoutAReservationThereIsNoBudget) {
  ReservationLedger none(0, 0);
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
