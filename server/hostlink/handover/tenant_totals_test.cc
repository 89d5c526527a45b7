#include "server/hostlink/handover/tenant_totals.h"

#include <gtest/gtest.h>

namespace warpline {
namespace {

TenantTotal Commands(uint64_t n) {
  TenantTotal total;
  total.commands = n;
  total.sessions = 1;
  return total;
}

TEST(TenantTotalsTest, SumsAreByTenantAndDevice) {
  TenantTotals totals;
  totals.Add({"a", 0}, Commands(3));
  totals.Add({"a", 0}, Commands(4));
  totals.Add({"a", 1}, Commands(5));
  totals.Add({"b", 0}, Commands(6));
  auto sums = totals.Sums();
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_EQ((sums[{"a", 0}].commands), 7u);
  EXPECT_EQ((sums[{"a", 0}].sessions), 2u);
  EXPECT_EQ((sums[{"a", 1}].commands), 5u);
}

TEST(TenantTotalsTest, WithTooManyTheMostSilentAreAddedUp) {
  TenantTotals totals(4);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 1000; ++i) {
      totals.Add({"tenant" + std::to_string(i), i % 2}, Commands(1));
      totals.Add({"busy", 0}, Commands(1));
    }
  }
  auto sums = totals.Sums();
  EXPECT_LE(sums.size(), 5u);
  EXPECT_EQ((sums[{"busy", 0}].commands), 2000u);
  uint64_t all = 0;
  for (const auto& [key, total] : sums) all += total.commands;
  EXPECT_EQ(all, 4000u);
}

}  // namespace
}  // namespace warpline
