#include "scheduler/placement/fair_shares.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::placement {
namespace {

using ::testing::ElementsAre;
using Shares = std::map<std::string, uint64_t>;

TEST(Divide, ByWeightAndNotMoreThanIsWanted) {
  EXPECT_THAT(Divide({{10}, {10}, {10}}, 9), ElementsAre(3, 3, 3));
  EXPECT_THAT(Divide({{1}, {10}, {10}}, 9), ElementsAre(1, 4, 4));
  EXPECT_THAT(Divide({{10, 0, 1}, {10, 0, 3}}, 8), ElementsAre(2, 6));
  EXPECT_THAT(Divide({{1}, {2}}, 8), ElementsAre(1, 2));
  EXPECT_THAT(Divide({}, 8), ElementsAre());
  EXPECT_THAT(Divide({{5, 0, 0}}, 8), ElementsAre(5));
}

TEST(Divide, WhatIsReservedFirst) {
  EXPECT_THAT(Divide({{10, 6}, {10}}, 8), ElementsAre(7, 1));
  EXPECT_THAT(Divide({{2, 6}, {10}}, 8), ElementsAre(2, 6));
  // More is reserved than there is: by weight of that.
  EXPECT_THAT(Divide({{10, 10}, {10, 10}, {10}}, 8), ElementsAre(4, 4, 0));
}

class FairSharesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Put({.name = "x"});
    Put({.name = "y", .weight = 3});
    Put({.name = "x1", .parent = "x"});
    Put({.name = "x2", .parent = "x"});
    Put({.name = "y1", .parent = "y"});
  }
  void Put(const TenantSpec& spec) { ASSERT_TRUE(quotas_.Put(spec).ok()); }
  Shares Of(const Shares& wanted, uint64_t amount, bool whole = false) const {
    Shares shares = FairShares(quotas_, wanted, amount, /*bytes_per_gpu=*/1000, whole);
    for (auto it = shares.begin(); it != shares.end();) {
      it = it->second == 0 ? shares.erase(it) : std::next(it);
    }
    return shares;
  }

  QuotaTree quotas_;
};

TEST_F(FairSharesTest, LevelByLevel) {
  EXPECT_EQ(Of({{"x1", 9000}, {"x2", 9000}, {"y1", 9000}}, 8000),
            (Shares{{"x1", 1000}, {"x2", 1000}, {"y1", 6000}}));
  EXPECT_EQ(Of({{"x1", 9000}, {"y1", 1000}}, 8000), (Shares{{"x1", 7000}, {"y1", 1000}}));
  EXPECT_EQ(Of({{"x1", 100}}, 8000), (Shares{{"x1", 100}}));
}

TEST_F(FairSharesTest, OwnLeasesOfOneAboveAreAsThoseOfOneBelow) {
  EXPECT_EQ(Of({{"x", 9000}, {"x1", 9000}}, 8000), (Shares{{"x", 4000}, {"x1", 4000}}));
}

TEST_F(FairSharesTest, TenantsThatNobodyPutAreAtTheTop) {
  EXPECT_EQ(Of({{"stranger", 9000}, {"x1", 9000}}, 8000),
            (Shares{{"stranger", 4000}, {"x1", 4000}}));
}

TEST_F(FairSharesTest, ReservesCountAtEachLevel) {
  Put({.name = "x", .reserved_bytes = 5000});
  EXPECT_EQ(Of({{"x1", 9000}, {"y1", 9000}}, 8000), (Shares{{"x1", 5750}, {"y1", 2250}}));
  EXPECT_EQ(Of({{"y1", 9000}}, 8000), (Shares{{"y1", 8000}}));
  // As if all that is reserved were wanted.
  EXPECT_EQ(Of({{"y1", 9000}}, 8000, true)["y1"], 3000u);
}

TEST_F(FairSharesTest, NothingIsDividedOfNothing) {
  EXPECT_EQ(Of({{"x1", 9000}}, 0), Shares{});
  EXPECT_EQ(FairShares(quotas_, {}, 8000, 0, true).count(""), 0u);
}

}  // namespace
}  // namespace warpline::placement
