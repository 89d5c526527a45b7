#include "scheduler/tenant_rates.h"

#include "gtest/gtest.h"

namespace warpline::scheduler {
namespace {

TEST(TenantRatesTest, ATenantHasItsBurstAndThenItsRate) {
  TenantRates rates(2, 5);
  absl::Time now = absl::FromUnixSeconds(1000);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(rates.Take("a", now)) << i;
  EXPECT_FALSE(rates.Take("a", now));
  now += absl::Milliseconds(500);
  EXPECT_TRUE(rates.Take("a", now));
  EXPECT_FALSE(rates.Take("a", now));
  now += absl::Hours(1);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(rates.Take("a", now)) << i;
  EXPECT_FALSE(rates.Take("a", now));
}

TEST(TenantRatesTest, OneTenantsCallsCostAnotherNone) {
  TenantRates rates(1, 1);
  const absl::Time now = absl::FromUnixSeconds(1000);
  EXPECT_TRUE(rates.Take("a", now));
  EXPECT_FALSE(rates.Take("a", now));
  EXPECT_TRUE(rates.Take("b", now));
}

}  // namespace
}  // namespace warpline::scheduler
