#include "server/gpu_server/dispatch/ledgers/engine_ledgers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace warpline::dispatch {
namespace {

constexpr int64_t kMs = 1'000'000;

ContenderTerms Terms(const std::string& ledger, uint32_t weight = 1, uint64_t tenant = 0) {
  ContenderTerms terms;
  terms.ledger = ledger;
  terms.weight = weight;
  terms.tenant = tenant;
  return terms;
}

class EngineLedgersTest : public testing::Test {
 protected:
  // A look, `ns` after the last one, at which these want the engine.
  void Look(const std::vector<EngineLedger*>& wanting, int64_t ns = kMs) {
    now_ns_ += ns;
    ledgers_.BeginLook(now_ns_);
    for (EngineLedger* const ledger : wanting) ledgers_.See(ledger, {.wants = true});
    ledgers_.EndLook(ns);
  }
  void Use(EngineLedger* ledger, int64_t ns) {
    ledgers_.Use(ledger, ns, /*owed=*/true);
    ledgers_.GiveOut();
  }

  int64_t now_ns_ = 1000 * kMs;
  EngineLedgers ledgers_;
};

TEST_F(EngineLedgersTest, WhatIsUsedIsGivenOutByWeight) {
  EngineLedger* const large = ledgers_.Join(Terms("large", 3));
  EngineLedger* const small = ledgers_.Join(Terms("small"));
  EngineLedger* const away = ledgers_.Join(Terms("away"));
  Look({large, small});
  Use(small, 40 * kMs);
  EXPECT_EQ(large->credit_ns(), 30 * kMs);
  EXPECT_EQ(small->credit_ns(), -30 * kMs);
  EXPECT_EQ(away->credit_ns(), 0);
  EXPECT_EQ(ledgers_.ShareOf(*large), 750);
  EXPECT_EQ(ledgers_.ShareOf(*away), 200);
}

TEST_F(EngineLedgersTest, NiceSessionsWeighLess) {
  EngineLedger* const nice = ledgers_.Join(Terms("nice", 3));
  EngineLedger* const usual = ledgers_.Join(Terms("usual", 3));
  const auto look = [&](uint32_t first, uint32_t second) {
    now_ns_ += kMs;
    ledgers_.BeginLook(now_ns_);
    ledgers_.See(nice, {.wants = true, .niceness = first});
    ledgers_.See(nice, {.wants = true, .niceness = second});
    ledgers_.See(nice, {.wants = false, .niceness = 0});
    ledgers_.See(usual, {.wants = true});
    ledgers_.EndLook(kMs);
  };
  look(19, 10);
  EXPECT_EQ(ledgers_.ShareOf(*nice), 1000 * 110 / (110 + 1024)) << "the least nice one counts";
  Use(usual, 1134 * kMs / 100);
  EXPECT_EQ(nice->credit_ns(), 110 * kMs / 100);
  look(19, 0);
  EXPECT_EQ(ledgers_.ShareOf(*nice), 500) << "never more than what it was promised";
  look(19, 4'000'000'000);
  EXPECT_EQ(ledgers_.ShareOf(*nice), 1000 * 15 / (15 + 1024));
  Look({usual});
  EXPECT_EQ(ledgers_.ShareOf(*nice), 1000 * 15 / (15 + 1024))
      << "as when it wanted the engine last";
}

TEST_F(EngineLedgersTest, ContendersThatNameOneLedgerHaveIt) {
  EngineLedger* const guarded = ledgers_.Join(Terms("a"));
  EngineLedger* const isolated = ledgers_.Join(Terms("a"));
  EngineLedger* const other = ledgers_.Join(Terms("b"));
  EXPECT_EQ(guarded, isolated);
  Look({guarded, isolated, other});
  EXPECT_EQ(ledgers_.active(), 2u);
  EXPECT_EQ(ledgers_.ShareOf(*guarded), 500);
  Use(guarded, 10 * kMs);
  Use(isolated, 10 * kMs);
  EXPECT_EQ(other->credit_ns(), 10 * kMs);
  ledgers_.Leave(guarded);
  EXPECT_EQ(isolated->credit_ns(), -10 * kMs);
}

TEST_F(EngineLedgersTest, LedgersWithoutANameAreNotOne) {
  EXPECT_NE(ledgers_.Join(Terms("")), ledgers_.Join(Terms("")));
}

TEST_F(EngineLedgersTest, WhoComesBackFindsItsDebt) {
  EngineLedger* const other = ledgers_.Join(Terms("b"));
  EngineLedger* debtor = ledgers_.Join(Terms("a"));
  Look({debtor, other});
  Use(debtor, 60 * kMs);
  ledgers_.Leave(debtor);
  Look({other});
  debtor = ledgers_.Join(Terms("a"));
  EXPECT_EQ(debtor->credit_ns(), -30 * kMs);
}

TEST_F(EngineLedgersTest, ATenantsNextLedgerHasTheDebtsOfThoseThatLeft) {
  EngineLedger* const other = ledgers_.Join(Terms("b", 1, 2));
  EngineLedger* const first = ledgers_.Join(Terms("a", 1, 1));
  EngineLedger* const stays = ledgers_.Join(Terms("stays", 1, 1));
  Look({first, other});
  Use(first, 60 * kMs);
  ledgers_.Leave(first);
  EXPECT_EQ(stays->credit_ns(), 0);
  EXPECT_EQ(ledgers_.Join(Terms("c", 1, 2))->credit_ns(), 0);
  EXPECT_EQ(ledgers_.Join(Terms("next", 1, 1))->credit_ns(), -30 * kMs);
  // Once.
  EXPECT_EQ(ledgers_.Join(Terms("third", 1, 1))->credit_ns(), 0);
}

TEST_F(EngineLedgersTest, ADebtEndsAndItsLedgerWithIt) {
  EngineLedger* const other = ledgers_.Join(Terms("b"));
  EngineLedger* const debtor = ledgers_.Join(Terms("a"));
  Look({debtor, other});
  Use(debtor, 60 * kMs);
  ledgers_.Leave(debtor);
  EXPECT_EQ(ledgers_.size(), 2u);
  // It has no part of what others use meanwhile.
  Look({other}, 10 * kMs);
  EXPECT_EQ(ledgers_.ShareOf(*other), 1000);
  Look({other}, 100 * kMs);
  Look({other}, 50 * kMs);
  EXPECT_EQ(ledgers_.size(), 1u);
  EXPECT_EQ(ledgers_.Join(Terms("a"))->credit_ns(), 0);
}

TEST_F(EngineLedgersTest, WhoOwesNothingLeavesNothing) {
  ledgers_.Leave(ledgers_.Join(Terms("a")));
  EXPECT_EQ(ledgers_.size(), 0u);
}

TEST_F(EngineLedgersTest, AReservationIsNotNewForWhoComesBack) {
  ContenderTerms terms = Terms("a");
  terms.period_ns = 20 * kMs;
  terms.budget_ns = 8 * kMs;
  EngineLedger* const other = ledgers_.Join(Terms("b"));
  EngineLedger* ledger = ledgers_.Join(terms);
  Look({ledger, other});
  Use(ledger, 7 * kMs);
  Use(other, 14 * kMs);
  EXPECT_GE(ledger->credit_ns(), 0);
  ledgers_.Leave(ledger);
  ledger = ledgers_.Join(terms);
  EXPECT_EQ(ledger->reservation().left_ns(), kMs);
  ledgers_.Leave(ledger);
  for (int i = 0; i < 3; ++i) Look({other}, 20 * kMs);
  EXPECT_EQ(ledgers_.size(), 1u);
}

TEST_F(EngineLedgersTest, OfThoseThatLeftTheLargestDebtsAreKept) {
  for (size_t i = 0; i < 1000; ++i) {
    EngineLedger* const debtor = ledgers_.Join(Terms("a" + std::to_string(i), 1, 10 + i));
    Look({debtor}, 1);
    ledgers_.Use(debtor, static_cast<int64_t>(1 + i % 500) * kMs, /*owed=*/true);
    ledgers_.Leave(debtor);
    EXPECT_LE(ledgers_.size(), EngineLedgers::kMostLeft);
  }
  EXPECT_EQ(ledgers_.size(), EngineLedgers::kMostLeft);
  EXPECT_EQ(ledgers_.Join(Terms("a999"))->credit_ns(), -500 * kMs);
  EXPECT_EQ(ledgers_.Join(Terms("a900"))->credit_ns(), 0);
}

}  // namespace
}  // namespace warpline::dispatch
