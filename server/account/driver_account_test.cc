#include "server/account/driver_account.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace warpline::server {
namespace {

using dispatch::GpuUse;
using dispatch::SliceUse;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kStepNs = 250 * kMs;
constexpr pid_t kThiefPid = 100;
constexpr pid_t kHonestPid = 200;

// Two slices on a GPU, of which the second one is honest and always wants compute.
class DriverAccountTest : public ::testing::Test {
 protected:
  DriverAccountTest() {
    use_.slices.resize(2);
    use_.slices[0] = Slice("thief", 1, 7, kThiefPid);
    use_.slices[1] = Slice("honest", 2, 8, kHonestPid);
  }

  static SliceUse Slice(const std::string& name, uint32_t vgpu, uint64_t session, int pid) {
    SliceUse slice;
    slice.slice = name;
    slice.tenant = name;
    slice.vgpu = vgpu;
    slice.share = 500;
    slice.workers.push_back({session, pid, false, 0, 0});
    return slice;
  }

  // What the slices had by the driver, and by dispatch, in percent.
  struct Time {
    uint32_t thief;
    int64_t thief_noted;
    uint32_t honest;
    int64_t honest_noted;
    bool others_want = true;
  };

  std::vector<Overdraft> Pass(const Time& time, int steps, bool sampled = true) {
    std::vector<Overdraft> found;
    for (int i = 0; i < steps; ++i) {
      now_ns_ += kStepNs;
      use_.looked_ns += kStepNs;
      Note(&use_.slices[0], time.thief_noted, time.others_want);
      if (use_.slices.size() > 1) Note(&use_.slices[1], time.honest_noted, false);
      std::vector<nvml::ProcessUse> samples;
      if (sampled) {
        samples = {{thief_pid_, now_ns_ / 1000, time.thief},
                   {kHonestPid, now_ns_ / 1000, time.honest}};
      }
      for (Overdraft& over : account_.Observe(now_ns_, samples, use_)) {
        found.push_back(std::move(over));
      }
    }
    return found;
  }

  static void Note(SliceUse* slice, int64_t percent, bool others_want) {
    slice->noted_ns += kStepNs * percent / 100;
    slice->workers[0].busy_ns += kStepNs * percent / 100;
    if (others_want) slice->others_wanted_ns += kStepNs;
  }

  static bool Ends(const std::vector<Overdraft>& found) {
    return std::any_of(found.begin(), found.end(), [](const auto& over) { return over.ends; });
  }

  int64_t now_ns_ = 1'000'000 * kMs;
  pid_t thief_pid_ = kThiefPid;
  GpuUse use_;
  DriverAccount account_{AccountOptions()};
};

TEST_F(DriverAccountTest, WhoNeverAsksIsChargedAndThenEnds) {
  const auto first = Pass({80, 0, 20, 100}, 9);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].slice, "thief");
  EXPECT_EQ(first[0].session, 7u);
  EXPECT_EQ(first[0].pid, kThiefPid);
  EXPECT_EQ(first[0].used, 800);
  EXPECT_EQ(first[0].noted, 0);
  EXPECT_EQ(first[0].share, 500);
  EXPECT_EQ(first[0].stolen_ns, 1600 * kMs);
  EXPECT_FALSE(first[0].ends);
  const auto later = Pass({80, 0, 20, 100}, 32);
  ASSERT_EQ(later.size(), 4u);
  EXPECT_FALSE(later[2].ends);
  EXPECT_TRUE(later[3].ends);
  EXPECT_EQ(later[3].windows, 5);
}

TEST_F(DriverAccountTest, WhoAsksAndTakesMoreIsFoundToo) {
  EXPECT_TRUE(Ends(Pass({85, 40, 15, 60}, 60)));
}

TEST_F(DriverAccountTest, ALittleMoreIsADebtAndNoReasonToEnd) {
  const auto found = Pass({65, 48, 35, 52}, 200);
  EXPECT_GE(found.size(), 20u);
  EXPECT_FALSE(Ends(found));
}

TEST_F(DriverAccountTest, WhatTheDriverMissesByIsForgiven) {
  EXPECT_TRUE(Pass({58, 50, 42, 50}, 200).empty());
}

TEST_F(DriverAccountTest, WhoKeepsToItsShareMayForgetToAsk) {
  EXPECT_TRUE(Pass({50, 0, 50, 100}, 200).empty());
}

TEST_F(DriverAccountTest, WhatNobodyElseWantsIsNoTheft) {
  EXPECT_TRUE(Pass({100, 0, 0, 0, /*others_want=*/false}, 200).empty());
}

// The driver may count a process that waits for its slice of time as well.
TEST_F(DriverAccountTest, PercentsOfMoreThanTheWholeAreParts) {
  EXPECT_TRUE(Pass({100, 50, 100, 50}, 200).empty());
  EXPECT_TRUE(Ends(Pass({100, 0, 20, 100}, 60)));
}

// A slice that works for two seconds and rests for two, whose samples come a second late.
TEST_F(DriverAccountTest, SamplesThatComeLateEndNobody) {
  std::vector<Overdraft> found;
  for (int i = 0; i < 100; ++i) {
    for (const Time& time :
         {Time{0, 95, 95, 0}, Time{95, 95, 0, 0}, Time{95, 0, 0, 95}, Time{0, 0, 95, 95}}) {
      for (Overdraft& over : Pass(time, 4)) found.push_back(std::move(over));
    }
  }
  EXPECT_FALSE(Ends(found));
}

TEST_F(DriverAccountTest, AWindowInBetweenBeginsAnew) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(Ends(Pass({90, 0, 10, 100}, 32)));
    EXPECT_FALSE(Ends(Pass({50, 50, 50, 50}, 16)));
  }
}

TEST_F(DriverAccountTest, ReconnectingIsNoWayOut) {
  // A new session, worker and place every second, so that no window has seen it from its beginning.
  uint64_t session = 7;
  const auto reconnect = [&] {
    ++session;
    thief_pid_ = static_cast<pid_t>(session) + 1000;
    use_.slices[0] = Slice("thief", static_cast<uint32_t>(session), session, thief_pid_);
    use_.slices[0].workers[0].since_us = now_ns_ / 1000;
  };
  bool ended = false;
  for (int i = 0; i < 20 && !ended; ++i) {
    ended = Ends(Pass({90, 0, 10, 100}, 4));
    reconnect();
  }
  ASSERT_TRUE(ended);
  // It has no more patience with the next one.
  reconnect();
  const auto next = Pass({90, 0, 10, 100}, 16);
  ASSERT_FALSE(next.empty());
  EXPECT_TRUE(next[0].ends);
  EXPECT_EQ(next[0].session, session);
}

TEST_F(DriverAccountTest, OfALeasesWorkersTheOneEndsThatHadMostBesidesItsTurns) {
  use_.slices[0].workers.push_back({9, 101, false, 0, 0});
  std::vector<Overdraft> found;
  for (int i = 0; i < 60; ++i) {
    now_ns_ += kStepNs;
    use_.looked_ns += kStepNs;
    Note(&use_.slices[0], 40, true);  // All of it by the first worker.
    Note(&use_.slices[1], 60, false);
    const int64_t us = now_ns_ / 1000;
    for (Overdraft& over : account_.Observe(
             now_ns_, {{kThiefPid, us, 40}, {101, us, 39}, {kHonestPid, us, 21}}, use_)) {
      found.push_back(std::move(over));
    }
  }
  ASSERT_TRUE(Ends(found));
  for (const Overdraft& over : found) EXPECT_EQ(over.session, 9u);
}

TEST_F(DriverAccountTest, AProcessOfManySessionsIsNobodys) {
  use_.slices[0].workers[0].trusted = true;
  EXPECT_TRUE(Pass({100, 0, 0, 100}, 200).empty());
}

TEST_F(DriverAccountTest, WithoutSamplesNobodyIsJudged) {
  EXPECT_TRUE(Pass({0, 0, 0, 100}, 39, /*sampled=*/false).empty());
  EXPECT_FALSE(account_.silent());
  EXPECT_TRUE(Pass({0, 0, 0, 100}, 16, /*sampled=*/false).empty());
  EXPECT_TRUE(account_.silent());
}

TEST_F(DriverAccountTest, ADriverThatNamesOthersIsSilent) {
  use_.slices[0].workers[0].pid = 5;
  use_.slices[1].workers[0].pid = 6;
  EXPECT_TRUE(Pass({80, 0, 20, 100}, 60).empty());
  EXPECT_TRUE(account_.silent());
}

TEST_F(DriverAccountTest, WhereNobodyWorksTheDriverNeedNotNameAnybody) {
  EXPECT_TRUE(Pass({0, 0, 0, 0}, 400, /*sampled=*/false).empty());
  EXPECT_FALSE(account_.silent());
}

// The dispatcher's thread did not get to look, and does not know who worked.
TEST_F(DriverAccountTest, WhatWasNotLookedAtIsNotHeldAgainstAnybody) {
  std::vector<Overdraft> found;
  for (int i = 0; i < 200; ++i) {
    now_ns_ += kStepNs;
    use_.looked_ns += kStepNs / 5;
    use_.slices[0].others_wanted_ns += kStepNs / 5;
    const int64_t us = now_ns_ / 1000;
    const auto some = account_.Observe(now_ns_, {{kThiefPid, us, 90}, {kHonestPid, us, 10}}, use_);
    found.insert(found.end(), some.begin(), some.end());
  }
  EXPECT_TRUE(found.empty());
}

}  // namespace
}  // namespace warpline::server
