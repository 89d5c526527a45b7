#include "server/device/cuda/shared/share_plan.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::device {
namespace {

const std::vector<int> kSlots = {8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16, 20};
constexpr int kAll = 132;

int Size(const SlotRange& range) { return SizeOf(kSlots, range); }

std::vector<int> Sizes(const std::vector<ShareDemand>& demands) {
  std::vector<int> sizes;
  for (const SlotRange& range : PlanShares(kSlots, demands)) sizes.push_back(Size(range));
  return sizes;
}

bool Overlap(const SlotRange& a, const SlotRange& b) { return a.begin < b.end && b.begin < a.end; }

TEST(SharePlanTest, WhoIsAloneHasTheDevice) {
  EXPECT_EQ(Sizes({{kAll}}), std::vector<int>({kAll}));
  EXPECT_EQ(Sizes({{1}}), std::vector<int>({kAll}));
  EXPECT_EQ(Sizes({{0}}), std::vector<int>({kAll}));
  EXPECT_EQ(Sizes({{0}, {0}}), std::vector<int>({kAll, kAll}));
  EXPECT_TRUE(PlanShares(kSlots, {}).empty());
}

TEST(SharePlanTest, ASmallOneLeavesTheRestToALargeOne) {
  EXPECT_EQ(Sizes({{kAll}, {1}}), std::vector<int>({124, 8}));
  EXPECT_EQ(Sizes({{1}, {kAll}}), std::vector<int>({8, 124}));
  EXPECT_EQ(Sizes({{12}, {kAll}, {1}}), std::vector<int>({16, 108, 8}));
}

TEST(SharePlanTest, LargeOnesGetEqualParts) {
  EXPECT_EQ(Sizes({{kAll}, {kAll}}), std::vector<int>({64, 68}));
  EXPECT_EQ(Sizes({{kAll}, {kAll}, {kAll}}), std::vector<int>({48, 48, 36}));
  EXPECT_EQ(Sizes({{kAll}, {1}, {kAll}}), std::vector<int>({56, 8, 68}));
}

ShareDemand Weighted(int weight, int wanted = kAll) {
  ShareDemand demand;
  demand.wanted = wanted;
  demand.weight = weight;
  return demand;
}

// As near as slots come to it.
TEST(SharePlanTest, LargeOnesGetPartsByTheirWeights) {
  EXPECT_EQ(Sizes({Weighted(3), Weighted(1)}), std::vector<int>({100, 32}));
  EXPECT_EQ(Sizes({Weighted(1), Weighted(3)}), std::vector<int>({32, 100}));
  EXPECT_EQ(Sizes({Weighted(10), Weighted(1)}), std::vector<int>({116, 16}));
  // What the weighty one does not want is the other's.
  EXPECT_EQ(Sizes({Weighted(10, 16), Weighted(1)}), std::vector<int>({16, 116}));
}

TEST(SharePlanTest, WhatWasRoundedOffIsMadeUpFor) {
  ShareDemand light = Weighted(1), heavy = Weighted(10);
  light.owed = -4;
  heavy.owed = 4;
  EXPECT_EQ(Sizes({heavy, light}), std::vector<int>({124, 8}));
  light.owed = 4;
  heavy.owed = -4;
  EXPECT_EQ(Sizes({heavy, light}), std::vector<int>({116, 16}));
  // Nobody is left without a slot.
  light.owed = -1000;
  EXPECT_EQ(Sizes({heavy, light}), std::vector<int>({124, 8}));
}

TEST(SharePlanTest, ASlotStaysFreeForThoseWhoRest) {
  EXPECT_EQ(Sizes({{kAll}, {0}}), std::vector<int>({124, 8}));
  EXPECT_EQ(Sizes({{0}, {kAll}, {0}, {kAll}}), std::vector<int>({8, 56, 8, 68}));
  const std::vector<SlotRange> plan = PlanShares(kSlots, {{kAll}, {0}});
  EXPECT_FALSE(Overlap(plan[0], plan[1]));
}

TEST(SharePlanTest, LimitsHold) {
  EXPECT_EQ(Sizes({{kAll, 32}}), std::vector<int>({32}));
  EXPECT_EQ(Sizes({{kAll, 32}, {kAll}}), std::vector<int>({32, 100}));
  EXPECT_EQ(Sizes({{kAll, 20}}), std::vector<int>({16}));
  EXPECT_EQ(Sizes({{kAll, 1}}), std::vector<int>({8})) << "no less than a slot";
}

TEST(SharePlanTest, MoreThanThereAreSlotsShareThem) {
  const std::vector<ShareDemand> demands(27, ShareDemand{kAll});
  std::vector<int> users(kSlots.size());
  for (const SlotRange& range : PlanShares(kSlots, demands)) {
    ASSERT_EQ(range.end, range.begin + 1);
    ++users[range.begin];
  }
  for (const int count : users) {
    EXPECT_GE(count, 2);
    EXPECT_LE(count, 3);
  }
}

TEST(SharePlanTest, NobodyGetsTheSlotsOfKernelsThatRunForLong) {
  for (const size_t sessions : {2, 5, 11, 13, 64}) {
    for (const SlotRange pinned : {SlotRange{0, 1}, {4, 5}, {3, 7}, {1, 12}}) {
      std::vector<ShareDemand> demands(sessions, ShareDemand{kAll});
      demands[1].pinned = pinned;
      const std::vector<SlotRange> plan = PlanShares(kSlots, demands);
      EXPECT_EQ(plan[1], pinned);
      for (size_t i = 0; i < sessions; ++i) {
        EXPECT_TRUE(i == 1 || !Overlap(plan[i], pinned)) << sessions << ": " << i;
      }
    }
  }
}

TEST(SharePlanTest, SetsAndRangesOfSlots) {
  EXPECT_EQ(SetOf({0, 0}), 0u);
  EXPECT_EQ(SetOf({2, 4}), 0b1100u);
  EXPECT_EQ(HullOf(0), SlotRange());
  EXPECT_EQ(HullOf(0b10100), (SlotRange{2, 5}));
  EXPECT_EQ(HullOf(SlotSet{1} << 63), (SlotRange{63, 64}));
  EXPECT_EQ(SizeOf({8, 8, 16}, SlotSet{0b101}), 24);
}

TEST(SharePlanTest, KernelsOnAllSlotsAreInEverybodysWayAnyhow) {
  std::vector<ShareDemand> demands(3, ShareDemand{kAll});
  demands[0].pinned = {0, 12};
  EXPECT_EQ(PlanShares(kSlots, demands), PlanShares(kSlots, {{kAll}, {kAll}, {kAll}}));
  demands[1].pinned = {0, 2};
  const std::vector<SlotRange> plan = PlanShares(kSlots, demands);
  EXPECT_EQ(plan[1], (SlotRange{0, 2}));
  EXPECT_GE(plan[0].begin, 2);
  EXPECT_GE(plan[2].begin, 2);
  EXPECT_EQ(PlanShares(kSlots, {{kAll, 0, {0, 12}}})[0], (SlotRange{0, 12}));
}

TEST(SharePlanTest, ADeviceWithOneSlotIsNotDivided) {
  for (const SlotRange& range : PlanShares({16}, {{16}, {1}, {0}})) {
    EXPECT_EQ(range, (SlotRange{0, 1}));
  }
}

TEST(SharePlanTest, WhateverIsWantedNobodyWorksOnAnothersSlots) {
  std::mt19937 random(20);
  for (int round = 0; round < 20000; ++round) {
    std::vector<ShareDemand> demands(1 + random() % 14);
    for (ShareDemand& demand : demands) {
      demand.wanted = random() % 3 == 0 ? 0 : static_cast<int>(1 + random() % 200);
      demand.weight = static_cast<int>(1 + random() % 12);
      demand.owed = static_cast<int>(random() % 49) - 24;
      demand.most = random() % 4 == 0 ? static_cast<int>(1 + random() % kAll) : 0;
      if (random() % 16 != 0) continue;
      demand.pinned.begin = static_cast<uint16_t>(random() % kSlots.size());
      demand.pinned.end = static_cast<uint16_t>(demand.pinned.begin + 1 +
                                                random() % (kSlots.size() - demand.pinned.begin));
    }
    const std::vector<SlotRange> plan = PlanShares(kSlots, demands);
    ASSERT_EQ(plan.size(), demands.size());
    size_t working = 0;
    bool pinned = false;
    for (const ShareDemand& demand : demands) {
      working += demand.wanted > 0;
      pinned |= demand.pinned != SlotRange();
    }
    for (size_t i = 0; i < plan.size(); ++i) {
      ASSERT_LT(plan[i].begin, plan[i].end);
      ASSERT_LE(plan[i].end, kSlots.size());
      if (demands[i].wanted == 0) continue;
      if (demands[i].most > 0 && !pinned) {
        ASSERT_LE(Size(plan[i]), std::max(demands[i].most, 20));
      }
      for (size_t j = 0; j < plan.size() && working < kSlots.size() && !pinned; ++j) {
        if (i == j) continue;
        ASSERT_FALSE(Overlap(plan[i], plan[j])) << round << ": " << i << ", " << j;
      }
    }
  }
}

}  // namespace
}  // namespace warpline::device
