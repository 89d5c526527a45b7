#include "server/gpu_server/modules/keep_rates.h"

#include "gtest/gtest.h"

namespace warpline::server {
namespace {

class KeepRatesTest : public testing::Test {
 protected:
  absl::Time now_ = absl::FromUnixSeconds(1800000000);
  KeepRates rates_{{.images = 3, .images_per_second = 0.5, .bytes = 100, .bytes_per_second = 10}};
};

TEST_F(KeepRatesTest, ImagesAreCounted) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(rates_.Take("a", 1, now_));
  EXPECT_FALSE(rates_.Take("a", 1, now_));
  EXPECT_TRUE(rates_.Take("b", 1, now_));
  now_ += absl::Seconds(2);
  EXPECT_TRUE(rates_.Take("a", 1, now_));
  EXPECT_FALSE(rates_.Take("a", 1, now_));
}

TEST_F(KeepRatesTest, SoAreTheirBytes) {
  EXPECT_TRUE(rates_.Take("a", 90, now_));
  EXPECT_FALSE(rates_.Take("a", 11, now_));
  EXPECT_TRUE(rates_.Take("a", 10, now_));
  now_ += absl::Seconds(1);
  EXPECT_FALSE(rates_.Take("a", 11, now_));
  EXPECT_TRUE(rates_.Take("a", 10, now_));
  EXPECT_FALSE(rates_.Take("a", 1000, now_ + absl::Hours(1)));
}

TEST_F(KeepRatesTest, WhoHasAllOfItsBudgetAgainIsForgotten) {
  EXPECT_TRUE(rates_.Take("a", 10, now_));
  EXPECT_TRUE(rates_.Take("b", 10, now_));
  EXPECT_EQ(rates_.payers(), 2u);
  EXPECT_TRUE(rates_.Take("c", 10, now_ + absl::Minutes(1)));
  EXPECT_EQ(rates_.payers(), 1u);
}

}  // namespace
}  // namespace warpline::server
