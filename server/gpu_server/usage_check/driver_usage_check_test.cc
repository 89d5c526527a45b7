#include "server/gpu_server/usage_check/driver_usage_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace warpline::server {
namespace {

using dispatch::GpuUse;
using dispatch::SliceUse;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;
constexpr int64_t kStepNs = 250 * kMs;
constexpr pid_t kThiefPid = 100;
constexpr pid_t kHonestPid = 200;

// Two slices on a GPU, of which the second one is honest and always wants compute. The driver is
// as one was seen to be: each of its samples says that whoever is on the device had all of the
// time, and samples that follow each other tend to say the same.
class DriverUsageCheckTest : public ::testing::Test {
 protected:
  DriverUsageCheckTest() {
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

  // What the slices have of the device, and have by dispatch, in percent.
  struct Time {
    int64_t thief;
    int64_t thief_noted;
    int64_t honest_noted;
    bool others_want = true;
  };

  std::vector<Overdraft> Pass(const Time& time, int64_t ns, bool sampled = true) {
    std::vector<Overdraft> found;
    for (const int64_t end_ns = now_ns_ + ns; now_ns_ < end_ns;) {
      Step(time, sampled, &found);
    }
    return found;
  }

  // Until a session is to end; -1 if none is in that time.
  int64_t SecondsUntilTheEnd(const Time& time, int64_t most_ns) {
    const int64_t began_ns = now_ns_;
    while (now_ns_ < began_ns + most_ns) {
      std::vector<Overdraft> found;
      Step(time, true, &found);
      if (Ends(found)) return (now_ns_ - began_ns) / kSecond;
    }
    return -1;
  }

  void Step(const Time& time, bool sampled, std::vector<Overdraft>* found) {
    now_ns_ += kStepNs;
    use_.looked_ns += kStepNs;
    Note(&use_.slices[0], time.thief_noted, time.others_want);
    if (use_.slices.size() > 1) Note(&use_.slices[1], time.honest_noted, false);
    std::vector<nvml::ProcessUse> samples;
    // The same as before half of the time.
    if (random_() % 2 == 0) {
      thief_on_ = std::uniform_int_distribution<int64_t>(0, 99)(random_) < time.thief;
    }
    if (sampled) samples = {{thief_on_ ? thief_pid_ : kHonestPid, now_ns_ / 1000, 99}};
    for (Overdraft& over : check_->Observe(now_ns_, samples, use_)) {
      found->push_back(std::move(over));
    }
  }

  static void Note(SliceUse* slice, int64_t percent, bool others_want) {
    slice->noted_ns += kStepNs * percent / 100;
    slice->workers[0].busy_ns += kStepNs * percent / 100;
    if (others_want) slice->others_wanted_ns += kStepNs;
  }

  static bool Ends(const std::vector<Overdraft>& found) {
    return std::any_of(found.begin(), found.end(), [](const auto& over) { return over.ends; });
  }

  static int64_t Sum(const std::vector<Overdraft>& found) {
    int64_t sum_ns = 0;
    for (const Overdraft& over : found) sum_ns += over.stolen_ns;
    return sum_ns;
  }

  // The next thief, of whom the check has not heard.
  void Again(uint32_t seed) {
    random_.seed(seed);
    check_.emplace(UsageCheckOptions());
  }

  int64_t now_ns_ = 1'000'000 * kMs;
  pid_t thief_pid_ = kThiefPid;
  bool thief_on_ = false;
  std::minstd_rand random_{1};
  GpuUse use_;
  std::optional<DriverUsageCheck> check_{std::in_place, UsageCheckOptions()};
};

TEST_F(DriverUsageCheckTest, WhoNeverAsksIsChargedAndThenEnds) {
  use_.slices[0].share = 250;
  bool ended = false;
  std::vector<Overdraft> found;
  for (int i = 0; i < 400 && !ended; ++i) {
    const size_t before = found.size();
    Step({50, 0, 100}, true, &found);
    ended = Ends(found);
    for (size_t k = before; k < found.size(); ++k) {
      EXPECT_EQ(found[k].slice, "thief");
      EXPECT_EQ(found[k].session, 7u);
      EXPECT_EQ(found[k].pid, kThiefPid);
      EXPECT_NEAR(static_cast<double>(found[k].used), 500, 200);
      EXPECT_EQ(found[k].stolen_ns, 500 * kMs);
      EXPECT_EQ(found[k].noted, 0);
      EXPECT_EQ(found[k].share, 250);
    }
  }
  ASSERT_TRUE(ended);
  EXPECT_GT(found.size(), 1u);
  EXPECT_FALSE(found[0].ends);
}

// The driver says what all of an MPS group's workers do of the process that serves them. The one
// that ends is who had least of what the group was given.
TEST_F(DriverUsageCheckTest, WhatAProcessDoesForAGroupIsTheGroups) {
  SliceUse& group = use_.slices[0];
  group.share = 250;
  group.workers.push_back({9, 101, false, 0, 0});
  group.workers.push_back({0, 110, false, 0, 0});
  thief_pid_ = 110;
  std::vector<Overdraft> found;
  for (int i = 0; i < 1000 && !Ends(found); ++i) {
    found.clear();
    Step({60, 20, 80}, true, &found);
  }
  ASSERT_TRUE(Ends(found));
  EXPECT_EQ(found.back().session, 9u);
  EXPECT_EQ(found.back().slice, "thief");
}

TEST_F(DriverUsageCheckTest, AGroupThatKeepsToWhatItHasIsLeftAlone) {
  use_.slices[0].workers.push_back({0, 110, false, 0, 0});
  thief_pid_ = 110;
  EXPECT_FALSE(Ends(Pass({50, 50, 50}, 86'400 * kSecond)));
  EXPECT_FALSE(check_->silent());
}

TEST_F(DriverUsageCheckTest, ThievesEndWithinAMinuteOrTwo) {
  use_.slices[0].share = 250;
  std::vector<int64_t> never_asks;
  std::vector<int64_t> takes_twice;
  for (uint32_t seed = 1; seed <= 101; ++seed) {
    Again(seed);
    never_asks.push_back(SecondsUntilTheEnd({50, 0, 100}, 1000 * kSecond));
    Again(seed);
    takes_twice.push_back(SecondsUntilTheEnd({50, 25, 75}, 1000 * kSecond));
  }
  for (std::vector<int64_t>* const times : {&never_asks, &takes_twice}) {
    std::sort(times->begin(), times->end());
    EXPECT_NE(times->front(), -1);
  }
  EXPECT_LT(never_asks[50], 40) << "median";
  EXPECT_LT(never_asks[100], 80) << "slowest";
  EXPECT_LT(takes_twice[50], 180) << "median";
}

TEST_F(DriverUsageCheckTest, HonestSlicesOfEverySizeAreLeftAlone) {
  for (const int64_t percent : {5, 10, 25, 50, 75, 90}) {
    Again(static_cast<uint32_t>(percent));
    use_.slices[0].share = static_cast<uint32_t>(percent * 10);
    const auto found = Pass({percent, percent, 100 - percent}, 24 * 3600 * kSecond);
    EXPECT_FALSE(Ends(found)) << percent;
    EXPECT_LE(Sum(found), 60 * kSecond) << percent;
  }
}

TEST_F(DriverUsageCheckTest, ALittleMoreIsADebtAndNoReasonToEnd) {
  const auto found = Pass({66, 49, 51}, 3600 * kSecond);
  EXPECT_FALSE(Ends(found));
  EXPECT_NEAR(static_cast<double>(Sum(found)), 0.17 * 3600e9, 0.05 * 3600e9);
}

TEST_F(DriverUsageCheckTest, WhatTheDriverMissesByIsForgiven) {
  EXPECT_LE(Sum(Pass({54, 50, 50}, 24 * 3600 * kSecond)), 120 * kSecond);
}

TEST_F(DriverUsageCheckTest, WhoKeepsToItsShareMayForgetToAsk) {
  use_.slices[0].share = 600;
  EXPECT_FALSE(Ends(Pass({50, 0, 100}, 3600 * kSecond)));
}

TEST_F(DriverUsageCheckTest, WhatNobodyElseWantsIsNoTheft) {
  EXPECT_TRUE(Pass({100, 0, 0, /*others_want=*/false}, 600 * kSecond).empty());
}

// Another driver counts a process that waits for its slice of time as well, and all of the time.
TEST_F(DriverUsageCheckTest, PercentsOfMoreThanTheWholeAreParts) {
  const auto ends = [this](int64_t noted) {
    Again(1);
    bool ended = false;
    for (int i = 0; i < 400; ++i) {
      now_ns_ += kStepNs;
      use_.looked_ns += kStepNs;
      Note(&use_.slices[0], noted, true);
      Note(&use_.slices[1], 100 - noted, false);
      const int64_t us = now_ns_ / 1000;
      ended |= Ends(check_->Observe(now_ns_, {{kThiefPid, us, 100}, {kHonestPid, us, 100}}, use_));
    }
    return ended;
  };
  use_.slices[0].share = 250;
  EXPECT_FALSE(ends(50));
  EXPECT_TRUE(ends(0));
}

// A slice that works for two seconds and rests for two, whose samples come a second late.
TEST_F(DriverUsageCheckTest, SamplesThatComeLateEndNobody) {
  std::vector<Overdraft> found;
  for (int i = 0; i < 2000; ++i) {
    for (const Time& time : {Time{0, 95, 0}, Time{95, 95, 0}, Time{95, 0, 95}, Time{0, 0, 95}}) {
      for (Overdraft& over : Pass(time, kSecond)) found.push_back(std::move(over));
    }
  }
  EXPECT_FALSE(Ends(found));
}

TEST_F(DriverUsageCheckTest, ReconnectingIsNoWayOut) {
  // A new session, worker and place every second.
  uint64_t session = 7;
  std::string lease = "thief";
  const auto reconnect = [&] {
    ++session;
    thief_pid_ = static_cast<pid_t>(session) + 1000;
    use_.slices[0] = Slice("thief", static_cast<uint32_t>(session), session, thief_pid_);
    use_.slices[0].slice = lease;
    use_.slices[0].workers[0].since_us = now_ns_ / 1000;
  };
  const auto seconds_until_the_end = [&] {
    for (int i = 0; i < 1000; ++i) {
      const auto found = Pass({90, 0, 100}, kSecond);
      if (Ends(found)) {
        EXPECT_EQ(found.back().session, session);
        return i;
      }
      reconnect();
    }
    return -1;
  };
  const int first = seconds_until_the_end();
  ASSERT_NE(first, -1);
  // It has less patience with the next one, though it is another lease's.
  lease = "another lease of the thief's";
  reconnect();
  const int next = seconds_until_the_end();
  ASSERT_NE(next, -1);
  EXPECT_LT(next, first);
}

TEST_F(DriverUsageCheckTest, OfALeasesWorkersTheOneEndsThatHadMostBesidesItsTurns) {
  use_.slices[0].workers.push_back({9, 101, false, 0, 0});
  std::vector<Overdraft> found;
  for (int i = 0; i < 1000; ++i) {
    now_ns_ += kStepNs;
    use_.looked_ns += kStepNs;
    Note(&use_.slices[0], 40, true);  // All of it by the first worker.
    Note(&use_.slices[1], 60, false);
    const int64_t us = now_ns_ / 1000;
    for (Overdraft& over : check_->Observe(
             now_ns_, {{kThiefPid, us, 40}, {101, us, 39}, {kHonestPid, us, 21}}, use_)) {
      found.push_back(std::move(over));
    }
  }
  ASSERT_TRUE(Ends(found));
  for (const Overdraft& over : found) EXPECT_EQ(over.session, 9u);
}

TEST_F(DriverUsageCheckTest, AProcessOfManySessionsIsNobodys) {
  use_.slices[0].workers[0].trusted = true;
  EXPECT_TRUE(Pass({100, 0, 100}, 600 * kSecond).empty());
}

TEST_F(DriverUsageCheckTest, WithoutSamplesNobodyIsJudged) {
  EXPECT_TRUE(Pass({0, 0, 100}, 9 * kSecond, /*sampled=*/false).empty());
  EXPECT_FALSE(check_->silent());
  EXPECT_TRUE(Pass({0, 0, 100}, 4 * kSecond, /*sampled=*/false).empty());
  EXPECT_TRUE(check_->silent());
}

TEST_F(DriverUsageCheckTest, ADriverThatNamesOthersIsSilent) {
  use_.slices[0].workers[0].pid = 5;
  use_.slices[1].workers[0].pid = 6;
  EXPECT_TRUE(Pass({80, 0, 100}, 60 * kSecond).empty());
  EXPECT_TRUE(check_->silent());
}

TEST_F(DriverUsageCheckTest, WhereNobodyWorksTheDriverNeedNotNameAnybody) {
  EXPECT_TRUE(Pass({0, 0, 0}, 100 * kSecond, /*sampled=*/false).empty());
  EXPECT_FALSE(check_->silent());
}

// The dispatcher's thread did not get to look, and does not know who worked.
TEST_F(DriverUsageCheckTest, WhatWasNotLookedAtIsNotHeldAgainstAnybody) {
  std::vector<Overdraft> found;
  for (int i = 0; i < 2000; ++i) {
    now_ns_ += kStepNs;
    use_.looked_ns += kStepNs / 5;
    use_.slices[0].others_wanted_ns += kStepNs / 5;
    const int64_t us = now_ns_ / 1000;
    const auto some = check_->Observe(now_ns_, {{kThiefPid, us, 90}, {kHonestPid, us, 10}}, use_);
    found.insert(found.end(), some.begin(), some.end());
  }
  EXPECT_TRUE(found.empty());
}

}  // namespace
}  // namespace warpline::server
