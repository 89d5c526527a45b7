#include "server/device/cuda/shared/share_planner.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
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
  const auto session = planner_.Join({});
  EXPECT_EQ(session->place(), kWhole);
  session->Use(&stream_, 1);
  EXPECT_EQ(session->place(), kWhole);
  const auto idle = planner_.Join({});
  session->Use(&stream_, SharePlanner::kAll);
  EXPECT_EQ(session->place(), kWhole) << "who never issued anything takes nothing";
}

TEST_F(SharePlannerTest, APlanIsMadeAtOnceWhenSomebodyBegins) {
  const auto large = planner_.Join({});
  const auto small = planner_.Join({});
  large->Use(&stream_, 1056);
  small->Use(&other_stream_, 1);
  EXPECT_EQ(small->place(), (SlotRange{0, 1}));
  EXPECT_EQ(large->place(), (SlotRange{1, 12}));
}

TEST_F(SharePlannerTest, WhoRestsKeepsASlotAndTheOthersGetTheRest) {
  const auto large = planner_.Join({});
  const auto other = planner_.Join({});
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
  const auto session = planner_.Join({});
  const auto other = planner_.Join({});
  SharePlanner::StreamUse streams[3];
  other->Use(&other_stream_, 1056);
  for (auto& stream : streams) {
    session->Use(&stream, 8);
    session->Use(&stream, 4);
    session->Use(&stream, 8);
  }
  EXPECT_EQ(session->place(), (SlotRange{0, 3}));
  // What a stream launched once is forgotten.
  for (int i = 0; i < 3; ++i) {
    Wait(SharePlanner::kWindowMs);
    session->Use(&streams[0], 8);
    other->Use(&other_stream_, 1056);
  }
  EXPECT_EQ(session->place(), (SlotRange{0, 1}));
}

TEST_F(SharePlannerTest, OperationsWithoutKernelsAreNoWork) {
  const auto copies = planner_.Join({});
  const auto large = planner_.Join({});
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
  const auto large = planner_.Join({});
  auto other = planner_.Join({});
  large->Use(&stream_, 1056);
  other->Use(&other_stream_, 1056);
  EXPECT_NE(large->place(), kWhole);
  other.reset();
  EXPECT_EQ(large->place(), kWhole);
}

// Others that got its slots would wait behind its kernel.
TEST_F(SharePlannerTest, WhoseKernelRunsKeepsItsPlace) {
  const auto runs = planner_.Join({});
  const auto other = planner_.Join({});
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

TEST_F(SharePlannerTest, WhoIsDoneWithALongKernelLeavesItsPlaceAtOnce) {
  const auto runs = planner_.Join({});
  const auto other = planner_.Join({});
  other->Use(&other_stream_, 0);
  runs->Use(&stream_, 1056);
  const SlotRange place = runs->place();
  EXPECT_EQ(place, (SlotRange{1, 12}));
  runs->SetBusy(SetOf(place));
  for (int window = 0; window < 3; ++window) {
    Wait(SharePlanner::kWindowMs);
    planner_.Look();
  }
  other->Use(&other_stream_, 1056);
  EXPECT_EQ(other->place(), (SlotRange{0, 1})) << "what is left beside the kernel";
  Wait(1);
  runs->SetBusy(0);
  EXPECT_EQ(other->place(), (SlotRange{1, 12}));
  EXPECT_EQ(runs->place(), (SlotRange{0, 1})) << "it rests";
}

TEST_F(SharePlannerTest, WhoseKernelRunsLongSharesWithNobodyElse) {
  std::vector<std::unique_ptr<SharePlanner::Session>> sessions;
  std::vector<SharePlanner::StreamUse> streams(11);
  for (int i = 0; i < 11; ++i) sessions.push_back(planner_.Join({}));
  for (int round = 0; round < 4; ++round) {
    // The first launches once, and the others all the time.
    for (size_t i = round == 0 ? 0 : 1; i < sessions.size(); ++i)
      sessions[i]->Use(&streams[i], 1056);
    if (round == 0) sessions[0]->SetBusy(SetOf(sessions[0]->place()));
    Wait(SharePlanner::kWindowMs);
    planner_.Look();
  }
  for (size_t i = 1; i < sessions.size(); ++i) {
    EXPECT_NE(sessions[i]->place().begin, sessions[0]->place().begin) << i;
  }
}

// Groups have the same weight, and one of them has a nice session and one that is not.
TEST_F(SharePlannerTest, AGroupWhoseSessionsAreAllNiceHasLess) {
  const auto nice = planner_.Join({.niceness = 5, .group = "a"});
  const auto usual = planner_.Join({.group = "b"});
  nice->Use(&stream_, 1056);
  usual->Use(&other_stream_, 1056);
  // 335 of 335 and 1024 parts are 32.5 of 132 multiprocessors.
  EXPECT_EQ(SizeOf(kSlots, nice->place()), 32);
  EXPECT_EQ(SizeOf(kSlots, usual->place()), 100);
  const auto urgent = planner_.Join({.group = "a"});
  SharePlanner::StreamUse urgent_stream;
  urgent->Use(&urgent_stream, 1056);
  EXPECT_NEAR(SizeOf(kSlots, usual->place()), 66, 16) << "the least nice one counts";
  EXPECT_NEAR(SizeOf(kSlots, nice->place()) + SizeOf(kSlots, urgent->place()), 66, 16);
}

TEST_F(SharePlannerTest, LimitsHold) {
  const auto session = planner_.Join({.most = 32});
  EXPECT_EQ(session->place(), (SlotRange{0, 4}));
  session->Use(&stream_, 1056);
  EXPECT_EQ(session->place(), (SlotRange{0, 4}));
}

// In the mean, and within four points in each second.
TEST_F(SharePlannerTest, PartsThatSlotsMissAreKeptInTheMean) {
  for (const int weight : {1, 2, 3, 5, 10, 20}) {
    SharePlanner planner(kSlots, &Now);
    SharePlanner::StreamUse light_use, heavy_use;
    const auto light = planner.Join({}), heavy = planner.Join({.weight = weight});
    constexpr int kWindowsASecond = 4, kSeconds = 20;
    const double due = 1.0 / (1 + weight);
    double sum = 0;
    for (int second = 0; second < kSeconds; ++second) {
      double in_second = 0;
      for (int i = 0; i < kWindowsASecond; ++i) {
        light->Use(&light_use, 1056);
        heavy->Use(&heavy_use, 1056);
        light->Arrive(&light_use, light->place());
        heavy->Arrive(&heavy_use, heavy->place());
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

// Two kernels are always queued, which need the longer the smaller the place is. Those that were
// launched before a plan changes stay where they are, so that by the plans alone the light one
// would have less than its part: it is late to leave 8 multiprocessors for 16 by more than to go
// back.
TEST_F(SharePlannerTest, PartsAreKeptByWhereKernelsRan) {
  for (const auto& [work_ms, looks] : std::vector<std::pair<int64_t, bool>>{{0, false},
                                                                            {200, false},
                                                                            {660, false},
                                                                            {1400, false},
                                                                            {200, true},
                                                                            {660, true},
                                                                            {1400, true}}) {
    SharePlanner planner(kSlots, &Now);
    SharePlanner::StreamUse light_use, heavy_use;
    const auto light = planner.Join({}), heavy = planner.Join({.weight = 10});
    const auto use = [&] {
      light->Use(&light_use, 1056);
      heavy->Use(&heavy_use, 1056);
      heavy->Arrive(&heavy_use, heavy->place());
    };
    use();
    light->Arrive(&light_use, light->place());  // Nothing of its was under way before.
    // Of the two kernels: where they run, and, of the first, what is left to do.
    SlotRange runs = light->place(), next = runs;
    double left = static_cast<double>(work_ms), had = 0;
    constexpr int kMs = 60'000;
    for (int ms = 0; ms < kMs; ++ms) {
      left -= SizeOf(kSlots, runs);
      if (left <= 0) {
        left += static_cast<double>(work_ms);
        runs = next;
        use();
        next = light->place();
        if (runs == next) light->Arrive(&light_use, next);
      }
      // As the worker's watch does.
      if (looks && ms % 100 == 50) light->SetBusy(SetOf(runs));
      had += SizeOf(kSlots, runs) / 132.0 / kMs;
      Wait(1);
    }
    EXPECT_NEAR(had, 1.0 / 11, 0.01 / 11) << work_ms << (looks ? ", looked at" : "");
  }
}

// One stream has two long kernels queued, as above, only while the place is large; another one has
// short kernels all the time, and goes along with each move at once.
TEST_F(SharePlannerTest, ShortKernelsHideNoLateOnes) {
  constexpr int64_t kWorkMs = 16 * 100;
  SharePlanner planner(kSlots, &Now);
  SharePlanner::StreamUse long_use, short_use, heavy_use;
  const auto light = planner.Join({}), heavy = planner.Join({.weight = 10});
  const auto use = [&](SharePlanner::Session* session, SharePlanner::StreamUse* stream) {
    session->Use(stream, 1056);
    session->Arrive(stream, session->place());
  };
  use(light.get(), &short_use);
  use(heavy.get(), &heavy_use);
  std::deque<std::pair<SlotRange, int64_t>> queued;  // Where, and what is left to do.
  double had = 0;
  constexpr int kMs = 60'000;
  for (int ms = 0; ms < kMs; ++ms) {
    if (!queued.empty()) {
      queued.front().second -= SizeOf(kSlots, queued.front().first);
      if (queued.front().second <= 0) queued.pop_front();
    }
    const SlotRange place = light->place();
    while (SizeOf(kSlots, place) >= 16 && queued.size() < 2) {
      light->Use(&long_use, 1056);
      queued.emplace_back(place, kWorkMs);
      if (queued.front().first == place) light->Arrive(&long_use, place);
    }
    use(light.get(), &short_use);
    use(heavy.get(), &heavy_use);
    SlotSet runs = SetOf(light->place());
    if (!queued.empty()) runs |= SetOf(queued.front().first);
    if (ms % 100 == 0) light->SetBusy(runs);
    had += SizeOf(kSlots, runs) / 132.0 / kMs;
    Wait(1);
  }
  EXPECT_LE(had, 1.02 / 11);
  EXPECT_GE(had, 0.9 / 11) << "until it is seen that the long ones are over they count";
}

// What part of its due a session has that does what `act` says, beside one of ten times its weight
// that has kernels all the time. `act` is called once each millisecond and returns where the
// session's kernels run, which is looked at ten times a second.
double PartOfDue(
    const std::function<SlotRange(SharePlanner* planner, SharePlanner::Session* session)>& act) {
  SharePlanner planner(kSlots, &Now);
  SharePlanner::StreamUse heavy_use;
  const auto session = planner.Join({}), heavy = planner.Join({.weight = 10});
  constexpr int kMs = 60'000;
  double had = 0;
  for (int ms = 0; ms < kMs; ++ms) {
    heavy->Use(&heavy_use, 1056);
    heavy->Arrive(&heavy_use, heavy->place());
    const SlotRange runs = act(&planner, session.get());
    if (ms % 100 == 50) {
      session->SetBusy(SetOf(runs));
      heavy->SetBusy(SetOf(heavy->place()));
    }
    had += SizeOf(kSlots, runs) / 132.0 / kMs;
    g_now += 1;
  }
  return had * 11;
}

TEST_F(SharePlannerTest, WhoIsHonestHasItsPart) {
  EXPECT_NEAR(PartOfDue([this](SharePlanner*, SharePlanner::Session* session) {
                session->Use(&stream_, 1056);
                session->Arrive(&stream_, session->place());
                return session->place();
              }),
              1, 0.01);
}

// After each move another stream, which begins with a copy.
TEST_F(SharePlannerTest, ACopyThatComesFirstHidesNoKernels) {
  std::vector<SharePlanner::StreamUse> streams(8);
  size_t current = 0;
  SlotRange last;
  const auto act = [&](SharePlanner* planner, SharePlanner::Session* session) {
    planner->Look();
    if (session->place() != last) {
      last = session->place();
      current = (current + 1) % streams.size();
      session->Use(&streams[current], 0);
      session->Arrive(&streams[current], last);
    }
    session->Use(&streams[current], 1056);
    if (session->place() == last) session->Arrive(&streams[current], last);
    return last;
  };
  EXPECT_NEAR(PartOfDue(act), 1, 0.02);
}

// Short kernels until its place is large, and then one that keeps it for as long as it may.
TEST_F(SharePlannerTest, ALongKernelOnALargePlaceIsPaidForAfterwards) {
  for (const int64_t kernel_ms : {600, 2000, 9500}) {
    int64_t until = 0;
    SlotRange on;
    const auto act = [&](SharePlanner*, SharePlanner::Session* session) {
      if (Now() < until) return on;
      if (until != 0) session->SetBusy(0);
      until = 0;
      session->Use(&stream_, 1056);
      on = session->place();
      session->Arrive(&stream_, on);
      if (SizeOf(kSlots, on) >= 16) until = Now() + kernel_ms;
      return on;
    };
    EXPECT_NEAR(PartOfDue(act), 1, 0.05) << kernel_ms;
  }
}

// The same, and then it rests until it would be forgotten.
TEST_F(SharePlannerTest, WhoRestsAfterALongKernelStillPays) {
  int64_t until = 0;
  SlotRange on;
  const auto act = [&](SharePlanner*, SharePlanner::Session* session) {
    if (Now() < until) return on;
    if (until != 0 && Now() < until + 3 * SharePlanner::kWindowMs) {
      session->SetBusy(0);
      return SlotRange();
    }
    until = 0;
    session->Use(&stream_, 1056);
    on = session->place();
    session->Arrive(&stream_, on);
    if (SizeOf(kSlots, on) >= 16) until = Now() + 9500;
    return on;
  };
  EXPECT_LE(PartOfDue(act), 1.03);
}

// When it moves a kernel is about to end where it was, and those that are queued behind it are all
// that it launches until it moves again: its stream does not say that it has come.
TEST_F(SharePlannerTest, KernelsThatAreQueuedBehindAMoveCountWhereTheyAreSeen) {
  SlotRange last;
  const auto act = [&](SharePlanner* planner, SharePlanner::Session* session) {
    planner->Look();
    session->Use(&stream_, 1056);
    last = session->place();
    return last;
  };
  EXPECT_NEAR(PartOfDue(act), 1, 0.05);
}

// It has kernels on the whole device again and again, for as long as that it can be seen.
TEST_F(SharePlannerTest, WhoStraysChangesNotHowOthersDivideTheRest) {
  SharePlanner planner(kSlots, &Now);
  SharePlanner::StreamUse light_use, heavy_use, stray_use;
  const auto light = planner.Join({}), heavy = planner.Join({.weight = 10}),
             stray = planner.Join({});
  double lights = 0, heavys = 0;
  for (int window = 0; window < 80; ++window) {
    light->Use(&light_use, 1056);
    heavy->Use(&heavy_use, 1056);
    stray->Use(&stray_use, 1056);
    light->Arrive(&light_use, light->place());
    heavy->Arrive(&heavy_use, heavy->place());
    stray->Stray(SetOf(kWhole));
    lights += SizeOf(kSlots, light->place());
    heavys += SizeOf(kSlots, heavy->place());
    Wait(SharePlanner::kWindowMs / 2);
    stray->SetBusy(window % 2 == 0 ? SetOf(kWhole) : 0);
    Wait(SharePlanner::kWindowMs / 2);
  }
  EXPECT_LE(lights / heavys, 0.15);
  EXPECT_LE(SizeOf(kSlots, stray->place()), 8) << "it has had more than its part";
}

// What was seen of it once and what its other streams do says nothing of a stream that goes on.
TEST_F(SharePlannerTest, KernelsThatAreSeenElsewhereCount) {
  uint32_t share = 0;
  const auto session = planner_.Join({.on_share = [&](uint32_t now) { share = now; }});
  const auto other = planner_.Join({});
  SharePlanner::StreamUse late;
  session->Use(&late, 1056);
  for (int window = 0; window < 3; ++window) {
    session->Use(&stream_, 1056);
    other->Use(&other_stream_, 1056);
    session->Arrive(&stream_, session->place());
    Wait(SharePlanner::kWindowMs);
  }
  EXPECT_EQ(share, 1000u) << "one of its streams may be where it was";
  session->SetBusy(SetOf(session->place()));
  EXPECT_LT(share, 600u);
  session->SetBusy(SetOf(kWhole));
  EXPECT_EQ(share, 1000u);
  session->SetBusy(SetOf(session->place()));
  EXPECT_LT(share, 600u);
}

TEST_F(SharePlannerTest, PartsThatSlotsMeetStayWhereTheyAre) {
  SharePlanner planner({16, 16, 16, 16}, &Now);
  const auto one = planner.Join({}), other = planner.Join({});
  one->Use(&stream_, 1056);
  other->Use(&other_stream_, 1056);
  const SlotRange place = one->place();
  for (int i = 0; i < 40; ++i) {
    one->Arrive(&stream_, one->place());
    other->Arrive(&other_stream_, other->place());
    Wait(SharePlanner::kWindowMs);
    one->Use(&stream_, 1056);
    other->Use(&other_stream_, 1056);
    EXPECT_EQ(one->place(), place);
  }
}

// By what all of a group's sessions have together.
TEST_F(SharePlannerTest, MoreSessionsBringAGroupNoMore) {
  for (const size_t count : {1u, 2u, 3u, 7u, 40u}) {
    SharePlanner planner(kSlots, &Now);
    const auto other = planner.Join({.group = "other"});
    std::vector<std::unique_ptr<SharePlanner::Session>> many;
    std::vector<SharePlanner::StreamUse> streams(count);
    for (size_t i = 0; i < count; ++i) many.push_back(planner.Join({.group = "many"}));
    constexpr int kWindows = 40;
    double others = 0;
    for (int window = 0; window < kWindows; ++window) {
      other->Use(&other_stream_, 1056);
      for (size_t i = 0; i < count; ++i) many[i]->Use(&streams[i], 1056);
      other->Arrive(&other_stream_, other->place());
      for (size_t i = 0; i < count; ++i) many[i]->Arrive(&streams[i], many[i]->place());
      EXPECT_NEAR(SizeOf(kSlots, other->place()), 66, 16) << count << " sessions beside it";
      others += SizeOf(kSlots, other->place());
      SlotSet had = 0;
      for (const auto& session : many) {
        EXPECT_EQ(SetOf(session->place()) & SetOf(other->place()), 0u);
        had |= SetOf(session->place());
      }
      EXPECT_EQ(had | SetOf(other->place()), SetOf(kWhole)) << "all of it is used";
      Wait(SharePlanner::kWindowMs);
    }
    EXPECT_NEAR(others / kWindows, 66, 1) << count << " sessions beside it";
  }
}

TEST_F(SharePlannerTest, ALimitIsOfAGroupTogether) {
  std::vector<std::unique_ptr<SharePlanner::Session>> sessions;
  std::vector<SharePlanner::StreamUse> streams(4);
  for (int i = 0; i < 4; ++i) sessions.push_back(planner_.Join({.most = 32, .group = "small"}));
  SlotSet had = 0;
  for (int window = 0; window < 4; ++window) {
    for (size_t i = 0; i < sessions.size(); ++i) sessions[i]->Use(&streams[i], 1056);
    Wait(SharePlanner::kWindowMs);
  }
  for (const auto& session : sessions) had |= SetOf(session->place());
  EXPECT_LE(SizeOf(kSlots, HullOf(had)), 32);
  EXPECT_TRUE(sessions[0]->limited());
}

// Kernels that run for long are part of what the group has.
TEST_F(SharePlannerTest, WhoStaysLeavesItsGroupTheRestOfItsPart) {
  const auto stays = planner_.Join({.group = "a"});
  const auto goes = planner_.Join({.group = "a"});
  const auto other = planner_.Join({.group = "b"});
  SharePlanner::StreamUse third;
  stays->Use(&stream_, 1056);
  goes->Use(&other_stream_, 1056);
  other->Use(&third, 1056);
  const SlotRange place = stays->place();
  stays->SetBusy(SetOf(place));
  for (int window = 0; window < 20; ++window) {
    Wait(SharePlanner::kWindowMs);
    goes->Use(&other_stream_, 1056);
    other->Use(&third, 1056);
    planner_.Look();
  }
  EXPECT_EQ(stays->place(), place);
  EXPECT_EQ(SetOf(goes->place()) & SetOf(place), 0u);
  EXPECT_EQ(SetOf(other->place()) & SetOf(place), 0u);
  EXPECT_GE(SizeOf(kSlots, other->place()), 56) << "half of the device";
}

// One session after the other launches a kernel that does not end, so that it stays where it is.
class Hoard {
 public:
  Hoard(SharePlanner* planner, const ShareTerms& terms, size_t count) : streams_(count) {
    for (size_t i = 0; i < count; ++i) sessions_.push_back(planner->Join(terms));
  }
  void Launch(size_t i, uint64_t blocks) {
    sessions_[i]->Use(&streams_[i], blocks);
    sessions_[i]->SetBusy(SetOf(sessions_[i]->place()));
  }
  size_t size() const { return sessions_.size(); }
  SlotSet places() const {
    SlotSet all = 0;
    for (const auto& session : sessions_) all |= session->busy();
    return all;
  }

 private:
  std::vector<std::unique_ptr<SharePlanner::Session>> sessions_;
  std::vector<SharePlanner::StreamUse> streams_;
};

TEST_F(SharePlannerTest, AGroupDoesNotGrowByKernelsThatDoNotEnd) {
  for (const uint64_t blocks : {8u, 1056u}) {
    SharePlanner planner(kSlots, &Now);
    const auto other = planner.Join({.group = "other"});
    Hoard hoard(&planner, {.group = "many"}, 16);
    for (size_t i = 0; i < hoard.size(); ++i) {
      for (int window = 0; window < 2; ++window) {
        other->Use(&other_stream_, 1056);
        if (window == 0) hoard.Launch(i, blocks);
        Wait(SharePlanner::kWindowMs);
        planner.Look();
      }
    }
    other->Use(&other_stream_, 1056);
    EXPECT_GE(SizeOf(kSlots, other->place()), 66 - 16) << blocks << " blocks each";
    EXPECT_EQ(SetOf(other->place()) & hoard.places(), 0u) << blocks;
  }
}

TEST_F(SharePlannerTest, ALimitHoldsForKernelsThatDoNotEnd) {
  const auto other = planner_.Join({.group = "other"});
  Hoard hoard(&planner_, {.most = 32, .group = "small"}, 8);
  for (size_t i = 0; i < hoard.size(); ++i) {
    for (int window = 0; window < 2; ++window) {
      other->Use(&other_stream_, 1056);
      if (window == 0) hoard.Launch(i, 1056);
      Wait(SharePlanner::kWindowMs);
      planner_.Look();
    }
  }
  EXPECT_LE(SizeOf(kSlots, hoard.places()), 32);
}

// It had the device for itself, and now somebody else comes.
TEST_F(SharePlannerTest, AGroupThatOverstaysKeepsNoMoreThanItsPart) {
  Hoard hoard(&planner_, {.group = "many"}, 11);
  for (size_t i = 0; i < hoard.size(); ++i) {
    hoard.Launch(i, 16);
    for (int window = 0; window < 2; ++window) {
      Wait(SharePlanner::kWindowMs);
      planner_.Look();
    }
  }
  EXPECT_GE(SizeOf(kSlots, hoard.places()), 100);
  const auto other = planner_.Join({.group = "other"});
  for (int64_t ms = 0; ms < SharePlanner::kStayMs; ms += SharePlanner::kWindowMs) {
    Wait(SharePlanner::kWindowMs);
    other->Use(&other_stream_, 1056);
  }
  EXPECT_GE(SizeOf(kSlots, other->place()), 66 - 16);
}

TEST_F(SharePlannerTest, TellsWhatPartASessionHas) {
  std::vector<uint32_t> told, other_told;
  const auto session = planner_.Join({.on_share = [&](uint32_t share) { told.push_back(share); }});
  auto other = planner_.Join({.on_share = [&](uint32_t share) { other_told.push_back(share); }});
  EXPECT_EQ(told, std::vector<uint32_t>{1000});
  const auto use = [&] {
    session->Use(&stream_, 1056);
    other->Use(&other_stream_, 1);
    other->Arrive(&other_stream_, other->place());
  };
  use();
  EXPECT_EQ(other_told.back(), 60u) << "8 of 132";
  EXPECT_EQ(told.back(), 1000u) << "its kernels are where they were";
  session->Arrive(&stream_, kWhole);
  EXPECT_EQ(told.back(), 1000u) << "that is not its place any more";
  session->Arrive(&stream_, session->place());
  EXPECT_EQ(told.back(), 939u);
  const size_t times = told.size();
  Wait(SharePlanner::kWindowMs);
  use();
  session->Arrive(&stream_, session->place());
  EXPECT_EQ(told.size(), times) << "nothing has changed";
  other.reset();
  session->Arrive(&stream_, session->place());
  EXPECT_EQ(told.back(), 1000u);
}

TEST_F(SharePlannerTest, ThreadsMayUseAndLeaveAtTheSameTime) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      SharePlanner::StreamUse stream;
      for (int i = 0; i < 200; ++i) {
        const auto session = planner_.Join({.group = i % 2 == 0 ? "shared" : ""});
        for (int j = 1; j < 20; ++j) session->Use(&stream, static_cast<uint64_t>(j * (t + 1)));
        EXPECT_LT(session->place().begin, session->place().end);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(planner_.Join({})->place(), kWhole);
}

}  // namespace
}  // namespace warpline::device
