#include "server/device/cuda/shared/share_planner.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/cuda/shared/share_plan.h"

namespace warpline::device {
namespace {

int64_t g_now = 0;
int64_t Now() { return g_now; }

const std::vector<int> kSlots = {8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16, 20};
constexpr SlotRange kWhole = {0, 12};

class SharePlannerTest : public testing::Test {
 protected:
  void SetUp() override { g_now = 1000; }
  void Wait(int64_t ms) { g_now += ms; }

  SharePlanner planner_{kSlots, &Now};
  SharePlanner::StreamUse stream_, other_stream_;
};

TEST_F(SharePlannerTest, WhoIsAloneHasTheDevice) {
  const auto seat = planner_.Join(0);
  EXPECT_EQ(seat->place(), kWhole);
  seat->Use(&stream_, 1);
  EXPECT_EQ(seat->place(), kWhole);
  const auto idle = planner_.Join(0);
  seat->Use(&stream_, SharePlanner::kAll);
  EXPECT_EQ(seat->place(), kWhole) << "who never issued anything takes nothing";
}

TEST_F(SharePlannerTest, APlanIsMadeAtOnceWhenSomebodyBegins) {
  const auto large = planner_.Join(0);
  const auto small = planner_.Join(0);
  large->Use(&stream_, 1056);
  small->Use(&other_stream_, 1);
  EXPECT_EQ(small->place(), (SlotRange{0, 1}));
  EXPECT_EQ(large->place(), (SlotRange{1, 12}));
}

TEST_F(SharePlannerTest, WhoRestsKeepsASlotAndTheOthersGetTheRest) {
  const auto large = planner_.Join(0);
  const auto other = planner_.Join(0);
  large->Use(&stream_, 1056);
  other->Use(&other_stream_, 1056);
  EXPECT_NE(large->place().end, kWhole.end);
  for (int i = 0; i < 3; ++i) {
    Wait(SharePlanner::kWindowMs);
    large->Use(&stream_, 1056);
  }
  EXPECT_EQ(large->place(), (SlotRange{1, 12}));
  EXPECT_EQ(other->place(), (SlotRange{0, 1}));
  Wait(SharePlanner::kPresenceMs + 1);
  large->Use(&stream_, 1056);
  EXPECT_EQ(large->place(), kWhole);
}

TEST_F(SharePlannerTest, DemandIsTheSumOfTheStreamsLargestGrids) {
  const auto seat = planner_.Join(0);
  const auto other = planner_.Join(0);
  SharePlanner::StreamUse streams[3];
  other->Use(&other_stream_, 1056);
  for (auto& stream : streams) {
    seat->Use(&stream, 8);
    seat->Use(&stream, 4);
    seat->Use(&stream, 8);
  }
  EXPECT_EQ(seat->place(), (SlotRange{0, 3}));
  // What a stream launched once is forgotten.
  for (int i = 0; i < 3; ++i) {
    Wait(SharePlanner::kWindowMs);
    seat->Use(&streams[0], 8);
    other->Use(&other_stream_, 1056);
  }
  EXPECT_EQ(seat->place(), (SlotRange{0, 1}));
}

TEST_F(SharePlannerTest, OperationsWithoutKernelsAreNoWork) {
  const auto copies = planner_.Join(0);
  const auto large = planner_.Join(0);
  large->Use(&stream_, 1056);
  for (int i = 0; i < 3; ++i) {
    Wait(SharePlanner::kWindowMs);
    large->Use(&stream_, 1056);
    copies->Use(&other_stream_, 0);
  }
  EXPECT_EQ(copies->place(), (SlotRange{0, 1}));
  EXPECT_EQ(large->place(), (SlotRange{1, 12}));
}

TEST_F(SharePlannerTest, WhoLeavesGivesBackItsPart) {
  const auto large = planner_.Join(0);
  auto other = planner_.Join(0);
  large->Use(&stream_, 1056);
  other->Use(&other_stream_, 1056);
  EXPECT_NE(large->place(), kWhole);
  other.reset();
  EXPECT_EQ(large->place(), kWhole);
}

// Others that got its slots would wait behind its kernel.
TEST_F(SharePlannerTest, WhoseKernelRunsKeepsItsPlace) {
  const auto runs = planner_.Join(0);
  const auto other = planner_.Join(0);
  runs->Use(&stream_, 1056);
  other->Use(&other_stream_, 1056);
  const SlotRange place = runs->place();
  runs->SetBusy(SetOf(place));
  for (int i = 0; i < 400; ++i) {
    Wait(SharePlanner::kWindowMs);
    other->Use(&other_stream_, 1056);
    planner_.Look();
  }
  EXPECT_EQ(runs->place(), place);
  runs->SetBusy(0);
  for (int i = 0; i < 3; ++i) {
    Wait(SharePlanner::kWindowMs);
    other->Use(&other_stream_, 1056);
  }
  EXPECT_EQ(other->place(), kWhole) << "it is absent now";
}

TEST_F(SharePlannerTest, WhoseKernelRunsLongSharesWithNobodyElse) {
  std::vector<std::unique_ptr<SharePlanner::Seat>> seats;
  std::vector<SharePlanner::StreamUse> streams(11);
  for (int i = 0; i < 11; ++i) seats.push_back(planner_.Join(0));
  for (int round = 0; round < 4; ++round) {
    // The first launches once, and the others all the time.
    for (size_t i = round == 0 ? 0 : 1; i < seats.size(); ++i) seats[i]->Use(&streams[i], 1056);
    if (round == 0) seats[0]->SetBusy(SetOf(seats[0]->place()));
    Wait(SharePlanner::kWindowMs);
    planner_.Look();
  }
  for (size_t i = 1; i < seats.size(); ++i) {
    EXPECT_NE(seats[i]->place().begin, seats[0]->place().begin) << i;
  }
}

TEST_F(SharePlannerTest, LimitsHold) {
  const auto seat = planner_.Join(32);
  EXPECT_EQ(seat->place(), (SlotRange{0, 4}));
  seat->Use(&stream_, 1056);
  EXPECT_EQ(seat->place(), (SlotRange{0, 4}));
}

// In the mean, and within four points in each second.
TEST_F(SharePlannerTest, PartsThatSlotsMissAreKeptInTheMean) {
  for (const int weight : {2, 3, 5, 10, 20}) {
    SharePlanner planner(kSlots, &Now);
    SharePlanner::StreamUse light_use, heavy_use;
    const auto light = planner.Join(0), heavy = planner.Join(0, weight);
    constexpr int kWindowsASecond = 4, kSeconds = 20;
    const double due = 1.0 / (1 + weight);
    double sum = 0;
    for (int second = 0; second < kSeconds; ++second) {
      double in_second = 0;
      for (int i = 0; i < kWindowsASecond; ++i) {
        light->Use(&light_use, 1056);
        heavy->Use(&heavy_use, 1056);
        EXPECT_EQ(SizeOf(kSlots, light->place()) + SizeOf(kSlots, heavy->place()), 132);
        in_second += SizeOf(kSlots, light->place()) / 132.0 / kWindowsASecond;
        Wait(SharePlanner::kWindowMs);
      }
      // Less than a slot nobody has.
      EXPECT_NEAR(in_second, std::max(due, 8 / 132.0), 0.04) << weight << " to one, " << second;
      sum += in_second / kSeconds;
    }
    EXPECT_NEAR(sum, std::max(due, 8 / 132.0), 0.01) << weight << " to one";
  }
}

TEST_F(SharePlannerTest, EvenPartsStayWhereTheyAre) {
  const auto one = planner_.Join(0), other = planner_.Join(0);
  one->Use(&stream_, 1056);
  other->Use(&other_stream_, 1056);
  const SlotRange place = one->place();
  for (int i = 0; i < 40; ++i) {
    Wait(SharePlanner::kWindowMs);
    one->Use(&stream_, 1056);
    other->Use(&other_stream_, 1056);
    EXPECT_EQ(one->place(), place);
  }
}

TEST_F(SharePlannerTest, ThreadsMayUseAndLeaveAtTheSameTime) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      SharePlanner::StreamUse stream;
      for (int i = 0; i < 200; ++i) {
        const auto seat = planner_.Join(0);
        for (int j = 1; j < 20; ++j) seat->Use(&stream, static_cast<uint64_t>(j * (t + 1)));
        EXPECT_LT(seat->place().begin, seat->place().end);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(planner_.Join(0)->place(), kWhole);
}

}  // namespace
}  // namespace warpline::device
