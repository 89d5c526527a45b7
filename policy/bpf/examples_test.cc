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
                                      .status = 0};
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
  context_.engine = 2;  // There is no such engine in the map.
  EXPECT_EQ(Dispatch(), WARPLINE_DEFAULT);

  const uint32_t compute = WARPLINE_COMPUTE;
  EXPECT_EQ(program_->FindMap("engines")->Find(&compute)[1], 2u);  // Held twice.
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
