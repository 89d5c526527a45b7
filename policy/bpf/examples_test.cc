// The policies in policy/examples, as clang compiles them: that they load, and what they decide.
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "policy/bpf/contexts.h"
#include "policy/bpf/program.h"
#include "policy/bpf/testing/policy_host.h"
#include "policy/include/warpline_policy.h"

namespace warpline::policy::bpf {
namespace {

constexpr uint64_t kMs = 1000000;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class ExamplesTest : public ::testing::Test {
 protected:
  void Load(const std::string& name) {
    auto program = Program::Load(ReadFile("policy/examples/" + name + ".bpf.o"), host_.Interface());
    ASSERT_TRUE(program.ok()) << program.status();
    program_ = *std::move(program);
  }

  uint64_t Dispatch() { return Verdict(kOnDispatch, context_); }
  uint64_t Verdict(size_t hook, const auto& context) {
    const auto verdict = program_->Run(hook, &context, sizeof(context));
    EXPECT_TRUE(verdict.has_value());
    return verdict.value_or(~uint64_t{0});
  }

  testing::PolicyHost host_;
  std::unique_ptr<Program> program_;
  warpline_on_dispatch context_ = {};
};

TEST_F(ExamplesTest, TokenBucketHoldsWhoUsedItUp) {
  ASSERT_NO_FATAL_FAILURE(Load("token_bucket"));
  EXPECT_EQ(program_->ask_always_ms(), 10000u);
  context_.tenant = 3;
  context_.now_ns = 1000 * kMs;
  EXPECT_EQ(Dispatch(), WARPLINE_RUN);
  // 20 ms at once, and then a quarter of the time: 24 ms are 4 ms too many, worth 16 ms.
  const warpline_on_retire retired = {.version = 1,
                                      .vgpu = 0,
                                      .tenant = 3,
                                      .session = 0,
                                      .now_ns = 0,
                                      .actual_ns = 24 * kMs,
                                      .bytes = 0,
                                      .engine = WARPLINE_COMPUTE,
                                      .status = 0,
                                      .device = 0,
                                      .reserved = 0};
  EXPECT_EQ(Verdict(kOnRetire, retired), WARPLINE_DEFAULT);
  EXPECT_EQ(Dispatch(), WARPLINE_HOLD_US(5000));
  context_.now_ns += 15 * kMs;
  EXPECT_EQ(Dispatch(), WARPLINE_HOLD_US(1001));
  context_.now_ns += 2 * kMs;
  EXPECT_EQ(Dispatch(), WARPLINE_RUN);
  context_.tenant = 4;
  EXPECT_EQ(Dispatch(), WARPLINE_RUN);
}

TEST_F(ExamplesTest, LatencyGuardHoldsBestEffortWork) {
  ASSERT_NO_FATAL_FAILURE(Load("latency_guard"));
  context_.now_ns = 1000 * kMs;
  EXPECT_EQ(Dispatch(), WARPLINE_RUN);  // Nobody urgent has been here.
  context_.priority = 5;
  EXPECT_EQ(Dispatch(), WARPLINE_RUN);
  context_.priority = 0;
  context_.now_ns += kMs / 10;
  EXPECT_EQ(Dispatch(), WARPLINE_HOLD_US(201));
  context_.expected_ns = 10000;
  EXPECT_EQ(Dispatch(), WARPLINE_RUN);
  context_.expected_ns = kMs;
  context_.engine = WARPLINE_COPY;  // The other engine has a guard of its own.
  EXPECT_EQ(Dispatch(), WARPLINE_RUN);
  context_.engine = WARPLINE_COMPUTE;
  context_.more_urgent_waiting = 1;
  EXPECT_EQ(Dispatch(), WARPLINE_HOLD);
  context_.wait_ns = 51 * kMs;
  EXPECT_EQ(Dispatch(), WARPLINE_RUN);
  context_.wait_ns = 0;
  context_.more_urgent_waiting = 0;
  context_.now_ns += kMs;
  EXPECT_EQ(Dispatch(), WARPLINE_RUN);
  context_.priority = 5;
  EXPECT_EQ(Dispatch(), WARPLINE_RUN);
  context_.priority = 0;
  context_.device = 1;  // Another device's tenants are nobody to wait for.
  EXPECT_EQ(Dispatch(), WARPLINE_RUN);
  context_.device = 64;  // There is no such device in the map.
  EXPECT_EQ(Dispatch(), WARPLINE_DEFAULT);

  const uint32_t compute = WARPLINE_COMPUTE;
  EXPECT_EQ(program_->FindMap("engines")->Find(&compute)[1], 2u);  // Held twice.
}

TEST_F(ExamplesTest, LatencyGuardHasBestEffortWorkMakeWay) {
  ASSERT_NO_FATAL_FAILURE(Load("latency_guard"));
  EXPECT_TRUE(program_->expects_arrivals());
  warpline_on_preempt preempt = {};
  preempt.waiting_priority = 5;
  for (const uint32_t level : {0u, 1u}) {
    preempt.level = level;
    EXPECT_EQ(Verdict(kOnPreempt, preempt), WARPLINE_YIELD);
  }
  preempt.level = 2;
  EXPECT_EQ(Verdict(kOnPreempt, preempt), WARPLINE_DEFAULT);
  preempt.level = 1;
  preempt.priority = 1;
  EXPECT_EQ(Verdict(kOnPreempt, preempt), WARPLINE_DEFAULT);
  preempt.priority = 0;
  preempt.waiting_priority = 0;
  EXPECT_EQ(Verdict(kOnPreempt, preempt), WARPLINE_DEFAULT);
}

TEST_F(ExamplesTest, DayAndNightGivesBatchWorkLessByDay) {
  ASSERT_NO_FATAL_FAILURE(Load("day_and_night"));
  context_.bw_share = 400;
  context_.used_share = 200;
  context_.day_second = 3 * 3600;
  EXPECT_EQ(Dispatch(), WARPLINE_DEFAULT);
  context_.day_second = 12 * 3600;
  EXPECT_EQ(Dispatch(), WARPLINE_HOLD_US(1000));
  context_.used_share = 100;
  EXPECT_EQ(Dispatch(), WARPLINE_DEFAULT);
  context_.used_share = 400;
  context_.priority = 1;
  EXPECT_EQ(Dispatch(), WARPLINE_DEFAULT);
  context_.priority = -1;
  EXPECT_EQ(Dispatch(), WARPLINE_HOLD_US(1000));
  context_.day_second = 20 * 3600;
  EXPECT_EQ(Dispatch(), WARPLINE_DEFAULT);
}

TEST_F(ExamplesTest, PowerBudgetHoldsLongWork) {
  ASSERT_NO_FATAL_FAILURE(Load("power_budget"));
  context_.power_limit_mw = 700000;
  context_.power_mw = 600000;
  context_.expected_ns = kMs;
  EXPECT_EQ(Dispatch(), WARPLINE_DEFAULT);
  context_.power_mw = 640000;
  EXPECT_EQ(Dispatch(), WARPLINE_HOLD_US(2000));
  EXPECT_EQ(Dispatch(), WARPLINE_HOLD_US(2000));
  EXPECT_EQ(host_.audited.size(), 1u);
  context_.expected_ns = 1000;
  EXPECT_EQ(Dispatch(), WARPLINE_DEFAULT);
  context_.expected_ns = 0;
  context_.priority = 1;
  EXPECT_EQ(Dispatch(), WARPLINE_RUN);
  context_.priority = 0;
  context_.power_mw = 100000;
  context_.temperature_c = 90;
  EXPECT_EQ(Dispatch(), WARPLINE_HOLD_US(2000));
  context_.temperature_c = -5;
  EXPECT_EQ(Dispatch(), WARPLINE_DEFAULT);
  const uint32_t zero = 0;
  EXPECT_EQ(program_->FindMap("power")->Find(&zero)[1], 640000u);
}

TEST_F(ExamplesTest, PowerBudgetLetsInWhatHasWaitedForLong) {
  ASSERT_NO_FATAL_FAILURE(Load("power_budget"));
  EXPECT_EQ(program_->ask_always_ms(), 5000u);
  context_.power_limit_mw = 700000;
  context_.power_mw = 690000;
  context_.wait_ns = 1900 * kMs;
  EXPECT_EQ(Dispatch(), WARPLINE_HOLD_US(2000));
  context_.wait_ns = 2100 * kMs;
  EXPECT_EQ(Dispatch(), WARPLINE_DEFAULT);
}

TEST_F(ExamplesTest, SessionLimitHasOneTooManyWaitAndThenRefusesIt) {
  ASSERT_NO_FATAL_FAILURE(Load("session_limit"));
  EXPECT_EQ(program_->ask_always_ms(), 0u);
  warpline_on_submit submit = {};
  submit.tenant = 3;
  submit.now_ns = 1000 * kMs;
  submit.call_class = WARPLINE_SESSION;
  submit.queue_depth = 3;
  EXPECT_EQ(Verdict(kOnSubmit, submit), WARPLINE_RUN);
  submit.queue_depth = 4;
  EXPECT_EQ(Verdict(kOnSubmit, submit), WARPLINE_HOLD_US(20000));
  submit.now_ns += 1900 * kMs;
  EXPECT_EQ(Verdict(kOnSubmit, submit), WARPLINE_HOLD_US(20000));
  submit.now_ns += 200 * kMs;
  EXPECT_EQ(Verdict(kOnSubmit, submit), WARPLINE_REJECT);
  // The next one has as long.
  EXPECT_EQ(Verdict(kOnSubmit, submit), WARPLINE_HOLD_US(20000));
  submit.tenant = 4;
  submit.queue_depth = 0;
  EXPECT_EQ(Verdict(kOnSubmit, submit), WARPLINE_RUN);
}

TEST_F(ExamplesTest, SessionLimitSparesUrgentSessionsAndRefusesWhatNeverFits) {
  ASSERT_NO_FATAL_FAILURE(Load("session_limit"));
  warpline_on_mem_fault fault = {};
  fault.wanted_bytes = 5;
  fault.quota_bytes = 4;
  EXPECT_EQ(Verdict(kOnMemFault, fault), WARPLINE_FAIL);
  fault.quota_bytes = 6;
  EXPECT_EQ(Verdict(kOnMemFault, fault), WARPLINE_DEFAULT);
  warpline_on_reclaim reclaim = {};
  EXPECT_EQ(Verdict(kOnReclaim, reclaim), WARPLINE_DEFAULT);
  reclaim.priority = 1;
  EXPECT_EQ(Verdict(kOnReclaim, reclaim), WARPLINE_KEEP);
}

// Every byte of a real object is changed, and the object cut short everywhere. What still loads
// runs.
TEST_F(ExamplesTest, ChangedObjectsAreRefusedOrRun) {
  const std::string object = ReadFile("policy/examples/token_bucket.bpf.o");
  alignas(8) const warpline_on_dispatch context = {};
  int loaded = 0;
  const auto try_one = [&](const std::string& bytes) {
    const auto program = Program::Load(bytes, host_.Interface());
    if (!program.ok()) {
      EXPECT_FALSE(program.status().message().empty());
      return;
    }
    ++loaded;
    (*program)->Run(kOnDispatch, &context, sizeof(context));
  };
  for (size_t at = 0; at < object.size(); ++at) {
    for (const uint8_t change : {0x01, 0x08, 0x80, 0xff}) {
      std::string bytes = object;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      try_one(bytes);
    }
    try_one(object.substr(0, at));
  }
  EXPECT_GT(loaded, 0);  // Such as with another constant.
}

TEST_F(ExamplesTest, ThrottleSlowsBestEffortKernelsBesideUrgentOnes) {
  ASSERT_NO_FATAL_FAILURE(Load("throttle"));
  warpline_on_preempt context = {};
  context.version = 1;
  context.level = 2;
  context.waiting_priority = 5;
  EXPECT_EQ(Verdict(kOnPreempt, context), WARPLINE_THROTTLE_US(200));
  context.waiting_ns = 20 * kMs;
  EXPECT_EQ(Verdict(kOnPreempt, context), WARPLINE_THROTTLE_US(200));
  context.waiting_ns = 21 * kMs;
  EXPECT_EQ(Verdict(kOnPreempt, context), WARPLINE_KEEP);
  context.waiting_ns = 0;
  context.priority = 1;
  EXPECT_EQ(Verdict(kOnPreempt, context), WARPLINE_KEEP);
  context.level = 1;
  EXPECT_EQ(Verdict(kOnPreempt, context), WARPLINE_DEFAULT);
}

// An urgent slice whose commands take longer beside a best-effort one at full pace, as the server
// shows it to a policy.
class OrionTest : public ExamplesTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Load("orion"));
    context_.version = 1;
    context_.vgpu = 1;
    context_.level = 2;
    context_.waiting_priority = 3;
    context_.waiting_vgpu = 2;
    context_.now_ns = 1000 * kMs;
  }

  // Returns for what part of the urgent slice's time at work the other one is kept apart. A command
  // takes 100 us alone, and so many thousandths of that beside the other one; a request of ten
  // comes every so many milliseconds, 0 for one after the other.
  double Run(uint64_t ms, uint64_t beside, uint64_t every_ms = 0) {
    uint64_t looks = 0, apart = 0;
    for (const uint64_t end = context_.now_ns + ms * kMs; context_.now_ns < end;) {
      context_.now_ns += kLookNs;
      if (left_ == 0 && context_.now_ns >= next_ns_) {
        left_ = 10;
        next_ns_ += every_ms * kMs;
      }
      const bool works = left_ > 0;
      context_.waiting_ns = works ? 0 : context_.waiting_ns + kLookNs;
      const bool is_apart = Asked();
      if (!works) continue;
      ++looks;
      apart += is_apart ? 1 : 0;
      context_.waiting_busy_ns += kLookNs;
      done_ns_ += kLookNs * 1000 / (is_apart ? 1000 : beside);
      if (done_ns_ < command_ns_) continue;
      done_ns_ -= command_ns_;
      ++context_.waiting_commands;
      --left_;
      // From 80 to 120 us.
      random_ = random_ * 6364136223846793005 + 1442695040888963407;
      command_ns_ = 80'000 + (random_ >> 40) % 40'001;
    }
    return static_cast<double>(apart) / static_cast<double>(looks);
  }
  bool Asked() {
    const uint64_t verdict = Verdict(kOnPreempt, context_);
    EXPECT_TRUE(verdict == WARPLINE_HOLD_US(2000) || verdict == WARPLINE_KEEP) << verdict;
    return verdict == WARPLINE_HOLD_US(2000);
  }

  static constexpr uint64_t kLookNs = 40'000;
  warpline_on_preempt context_ = {};
  uint64_t next_ns_ = 0, left_ = 0, done_ns_ = 0, command_ns_ = 100'000, random_ = 1;
};

TEST_F(OrionTest, KeepsApartWhatSlowsTheUrgentOneDown) {
  Run(1000, 1800);
  EXPECT_GT(Run(60'000, 1800), 0.95);
}

TEST_F(OrionTest, LeavesBesideItWhatDoesNot) {
  Run(1000, 1020);
  EXPECT_LT(Run(60'000, 1020), 0.05);
}

TEST_F(OrionTest, RequestsThatComeSeldomAreEnough) {
  Run(5000, 1800, 10);
  EXPECT_GT(Run(60'000, 1800, 10), 0.95);
}

TEST_F(OrionTest, FollowsWhenItChanges) {
  Run(5000, 1800);
  Run(40'000, 1000);
  EXPECT_LT(Run(40'000, 1000), 0.05);
  Run(40'000, 1500);
  EXPECT_GT(Run(40'000, 1500), 0.95);
}

TEST_F(OrionTest, WhoIsSlowedDownByAFewHundredthsIsLeftAsItWas) {
  Run(5000, 1800);
  // Between the two bounds.
  Run(40'000, 1080);
  EXPECT_GT(Run(20'000, 1080), 0.95);
}

// A measurement that is cut off counts for nothing.
TEST_F(OrionTest, TheUrgentOneGoesAndAnotherComes) {
  Run(50, 1800);
  context_.waiting_ns = kMs + 1;
  context_.now_ns += 1000 * kMs;
  EXPECT_FALSE(Asked());
  context_.waiting_vgpu = 3;
  context_.waiting_busy_ns = 0;
  context_.waiting_commands = 0;
  context_.waiting_ns = 0;
  Run(1000, 1000);
  EXPECT_LT(Run(60'000, 1000), 0.05);
}

// Two slices beside the urgent one, of which one slows it down.
TEST_F(OrionTest, OneOfSeveralIsMeasuredAtATime) {
  uint64_t looks = 0, apart[2] = {0, 0};
  for (const uint64_t end = context_.now_ns + 40'000 * kMs; context_.now_ns < end; ++looks) {
    context_.now_ns += kLookNs;
    bool beside[2];
    for (const uint32_t slice : {0, 1}) {
      context_.vgpu = 10 + slice;
      beside[slice] = !Asked();
      if (looks > 100'000 && !beside[slice]) ++apart[slice];
    }
    context_.waiting_busy_ns += kLookNs;
    done_ns_ += beside[0] ? kLookNs * 1000 / 1800 : kLookNs;
    for (; done_ns_ >= command_ns_; done_ns_ -= command_ns_) ++context_.waiting_commands;
  }
  EXPECT_GT(apart[0], (looks - 100'000) * 95 / 100);
  EXPECT_LT(apart[1], (looks - 100'000) * 5 / 100);
}

TEST_F(OrionTest, NothingHappensToWhomItIsNotAbout) {
  Run(1000, 1800);
  EXPECT_TRUE(Asked());
  context_.priority = 1;
  EXPECT_FALSE(Asked());
  context_.level = 1;
  EXPECT_EQ(Verdict(kOnPreempt, context_), WARPLINE_DEFAULT);
  // Another device, on which the numbers are the same, has measurements of its own.
  context_.level = 2;
  context_.priority = 0;
  context_.device = 1;
  Run(1000, 1000);
  EXPECT_FALSE(Asked());
  context_.device = 0;
  EXPECT_TRUE(Asked());
}

// An urgent session that says anything of itself has a best-effort one kept apart, at most.
TEST_F(OrionTest, LiesAboutTheUrgentOneAreHarmless) {
  for (int i = 0; i < 200'000; ++i) {
    random_ = random_ * 6364136223846793005 + 1442695040888963407;
    context_.now_ns += random_ >> 42;
    context_.waiting_busy_ns = random_;
    context_.waiting_commands = random_ * random_;
    Asked();
  }
}

TEST_F(ExamplesTest, ReefKillsBestEffortWorkThatIsInTheWay) {
  ASSERT_NO_FATAL_FAILURE(Load("reef"));
  EXPECT_EQ(program_->ask_always_ms(), 80u);
  EXPECT_EQ(Dispatch(), WARPLINE_DEFAULT);
  context_.more_urgent_waiting = 1;
  EXPECT_EQ(Dispatch(), WARPLINE_SKIP);

  warpline_on_preempt context = {};
  context.version = 1;
  context.tenant = 9;
  context.level = 1;
  EXPECT_EQ(Verdict(kOnPreempt, context), WARPLINE_DEFAULT);  // Nobody more urgent waits.
  context.waiting_priority = 5;
  EXPECT_EQ(Verdict(kOnPreempt, context), WARPLINE_YIELD);
  context.level = 2;
  EXPECT_EQ(Verdict(kOnPreempt, context), WARPLINE_KEEP);
  context.killable = 1;
  context.in_way_ns = 2 * kMs - 1;
  EXPECT_EQ(Verdict(kOnPreempt, context), WARPLINE_KEEP);
  context.in_way_ns = 2 * kMs;
  EXPECT_EQ(Verdict(kOnPreempt, context), WARPLINE_KILL);
  context.engine = WARPLINE_COPY;
  EXPECT_EQ(Verdict(kOnPreempt, context), WARPLINE_KEEP);
  context.engine = WARPLINE_COMPUTE;
  context.killable = 0;
  EXPECT_EQ(Verdict(kOnPreempt, context), WARPLINE_KEEP);
  const uint64_t tenant = 9;
  EXPECT_EQ(program_->FindMap("killed")->Find(&tenant)[0], 1u);
}

}  // namespace
}  // namespace warpline::policy::bpf
