#include "server/gpu_server/dispatch/accounts/engine_accounts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace warpline::dispatch {
namespace {

constexpr int64_t kMs = 1'000'000;

ContenderTerms Terms(const std::string& account, uint32_t weight = 1, uint64_t tenant = 0) {
  ContenderTerms terms;
  terms.account = account;
  terms.weight = weight;
  terms.tenant = tenant;
  return terms;
}

class EngineAccountsTest : public testing::Test {
 protected:
  // A look, `ns` after the last one, at which these want the engine.
  void Look(const std::vector<EngineAccount*>& wanting, int64_t ns = kMs) {
    now_ns_ += ns;
    accounts_.BeginLook(now_ns_);
    for (EngineAccount* const account : wanting) accounts_.See(account, /*wants=*/true, 0);
    accounts_.EndLook(ns);
  }
  void Use(EngineAccount* account, int64_t ns) {
    accounts_.Use(account, ns, /*owed=*/true);
    accounts_.GiveOut();
  }

  int64_t now_ns_ = 1000 * kMs;
  EngineAccounts accounts_;
};

TEST_F(EngineAccountsTest, WhatIsUsedIsGivenOutByWeight) {
  EngineAccount* const large = accounts_.Join(Terms("large", 3));
  EngineAccount* const small = accounts_.Join(Terms("small"));
  EngineAccount* const away = accounts_.Join(Terms("away"));
  Look({large, small});
  Use(small, 40 * kMs);
  EXPECT_EQ(large->credit_ns(), 30 * kMs);
  EXPECT_EQ(small->credit_ns(), -30 * kMs);
  EXPECT_EQ(away->credit_ns(), 0);
  EXPECT_EQ(accounts_.ShareOf(*large), 750);
  EXPECT_EQ(accounts_.ShareOf(*away), 200);
}

TEST_F(EngineAccountsTest, ContendersThatNameOneAccountHaveIt) {
  EngineAccount* const guarded = accounts_.Join(Terms("a"));
  EngineAccount* const isolated = accounts_.Join(Terms("a"));
  EngineAccount* const other = accounts_.Join(Terms("b"));
  EXPECT_EQ(guarded, isolated);
  Look({guarded, isolated, other});
  EXPECT_EQ(accounts_.active(), 2u);
  EXPECT_EQ(accounts_.ShareOf(*guarded), 500);
  Use(guarded, 10 * kMs);
  Use(isolated, 10 * kMs);
  EXPECT_EQ(other->credit_ns(), 10 * kMs);
  accounts_.Leave(guarded);
  EXPECT_EQ(isolated->credit_ns(), -10 * kMs);
}

TEST_F(EngineAccountsTest, AccountsWithoutANameAreNotOne) {
  EXPECT_NE(accounts_.Join(Terms("")), accounts_.Join(Terms("")));
}

TEST_F(EngineAccountsTest, WhoComesBackFindsItsDebt) {
  EngineAccount* const other = accounts_.Join(Terms("b"));
  EngineAccount* debtor = accounts_.Join(Terms("a"));
  Look({debtor, other});
  Use(debtor, 60 * kMs);
  accounts_.Leave(debtor);
  Look({other});
  debtor = accounts_.Join(Terms("a"));
  EXPECT_EQ(debtor->credit_ns(), -30 * kMs);
}

TEST_F(EngineAccountsTest, ATenantsNextAccountHasTheDebtsOfThoseThatLeft) {
  EngineAccount* const other = accounts_.Join(Terms("b", 1, 2));
  EngineAccount* const first = accounts_.Join(Terms("a", 1, 1));
  EngineAccount* const stays = accounts_.Join(Terms("stays", 1, 1));
  Look({first, other});
  Use(first, 60 * kMs);
  accounts_.Leave(first);
  EXPECT_EQ(stays->credit_ns(), 0);
  EXPECT_EQ(accounts_.Join(Terms("c", 1, 2))->credit_ns(), 0);
  EXPECT_EQ(accounts_.Join(Terms("next", 1, 1))->credit_ns(), -30 * kMs);
  // Once.
  EXPECT_EQ(accounts_.Join(Terms("third", 1, 1))->credit_ns(), 0);
}

TEST_F(EngineAccountsTest, ADebtEndsAndItsAccountWithIt) {
  EngineAccount* const other = accounts_.Join(Terms("b"));
  EngineAccount* const debtor = accounts_.Join(Terms("a"));
  Look({debtor, other});
  Use(debtor, 60 * kMs);
  accounts_.Leave(debtor);
  EXPECT_EQ(accounts_.size(), 2u);
  // It has no part of what others use meanwhile.
  Look({other}, 10 * kMs);
  EXPECT_EQ(accounts_.ShareOf(*other), 1000);
  Look({other}, 100 * kMs);
  Look({other}, 50 * kMs);
  EXPECT_EQ(accounts_.size(), 1u);
  EXPECT_EQ(accounts_.Join(Terms("a"))->credit_ns(), 0);
}

TEST_F(EngineAccountsTest, WhoOwesNothingLeavesNothing) {
  accounts_.Leave(accounts_.Join(Terms("a")));
  EXPECT_EQ(accounts_.size(), 0u);
}

TEST_F(EngineAccountsTest, AReservationIsNotNewForWhoComesBack) {
  ContenderTerms terms = Terms("a");
  terms.period_ns = 20 * kMs;
  terms.budget_ns = 8 * kMs;
  EngineAccount* const other = accounts_.Join(Terms("b"));
  EngineAccount* account = accounts_.Join(terms);
  Look({account, other});
  Use(account, 7 * kMs);
  Use(other, 14 * kMs);
  EXPECT_GE(account->credit_ns(), 0);
  accounts_.Leave(account);
  account = accounts_.Join(terms);
  EXPECT_EQ(account->reservation().left_ns(), kMs);
  accounts_.Leave(account);
  for (int i = 0; i < 3; ++i) Look({other}, 20 * kMs);
  EXPECT_EQ(accounts_.size(), 1u);
}

TEST_F(EngineAccountsTest, OfThoseThatLeftTheLargestDebtsAreKept) {
  for (size_t i = 0; i < 1000; ++i) {
    EngineAccount* const debtor = accounts_.Join(Terms("a" + std::to_string(i), 1, 10 + i));
    Look({debtor}, 1);
    accounts_.Use(debtor, static_cast<int64_t>(1 + i % 500) * kMs, /*owed=*/true);
    accounts_.Leave(debtor);
    EXPECT_LE(accounts_.size(), EngineAccounts::kMostLeft);
  }
  EXPECT_EQ(accounts_.size(), EngineAccounts::kMostLeft);
  EXPECT_EQ(accounts_.Join(Terms("a999"))->credit_ns(), -500 * kMs);
  EXPECT_EQ(accounts_.Join(Terms("a900"))->credit_ns(), 0);
}

}  // namespace
}  // namespace warpline::dispatch
