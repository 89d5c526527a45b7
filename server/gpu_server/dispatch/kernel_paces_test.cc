#include "server/gpu_server/dispatch/kernel_paces.h"

#include <vector>

#include "gtest/gtest.h"

namespace warpline::dispatch {
namespace {

class Slower : public policy::Policy {
 public:
  std::string_view name() const override { return "slower"; }
  policy::Verdict OnPreempt(const policy::PreemptContext& context) override {
    asked.push_back(context);
    return verdict;
  }

  policy::Verdict verdict = policy::Verdict::Throttle(200);
  std::vector<policy::PreemptContext> asked;
};

constexpr int64_t kMs = 1'000'000;

class KernelPacesTest : public testing::Test {
 protected:
  // Returns the naps of a best-effort slice and of an urgent one.
  std::vector<uint32_t> Look(bool effort, bool urgent, int64_t now_ns) {
    PacedSlice slices[] = {{.vgpu = 1, .tenant = 10, .priority = 0, .at_work = effort},
                           {.vgpu = 2, .tenant = 20, .priority = 3, .at_work = urgent}};
    paces_.Look(absl::MakeSpan(slices), now_ns, &policy_);
    return {slices[0].nap_us, slices[1].nap_us};
  }

  using Naps = std::vector<uint32_t>;
  KernelPaces paces_;
  Slower policy_;
};

TEST_F(KernelPacesTest, ASliceGoesSlowlyWhileAMoreUrgentOneIsAtWork) {
  EXPECT_EQ(Look(true, false, kMs), Naps({0, 0}));
  EXPECT_TRUE(policy_.asked.empty());
  EXPECT_EQ(Look(true, true, 3 * kMs), Naps({200, 0}));
  ASSERT_EQ(policy_.asked.size(), 1u);
  const policy::PreemptContext& context = policy_.asked[0];
  EXPECT_EQ(context.level, 2u);
  EXPECT_EQ(context.head.vgpu, 1u);
  EXPECT_EQ(context.head.tenant, 10u);
  EXPECT_EQ(context.elapsed_ns, uint64_t{2 * kMs});
  EXPECT_EQ(context.waiting_ns, 0u);
  EXPECT_EQ(context.priority, 0);
  EXPECT_EQ(context.waiting_priority, 3);
}

TEST_F(KernelPacesTest, WhoIsHeldIsAskedAboutWhileItWaits) {
  policy_.verdict = policy::Verdict::Hold(2000);
  const auto look = [&](bool effort, bool waits, bool urgent, int64_t now_ns) {
    PacedSlice slices[] = {{.vgpu = 1, .at_work = effort, .waiting = waits},
                           {.vgpu = 2, .priority = 3, .at_work = urgent}};
    paces_.Look(absl::MakeSpan(slices), now_ns, &policy_);
    EXPECT_EQ(slices[1].held_for, 0u);
    EXPECT_EQ(slices[0].nap_us, slices[0].held_for != 0 && (effort || waits) ? 1000u : 0u);
    return slices[0].held_for;
  };
  EXPECT_EQ(look(true, false, true, kMs), 2u);
  EXPECT_EQ(look(false, true, true, 2 * kMs), 2u);
  EXPECT_EQ(policy_.asked.back().elapsed_ns, 0u);
  EXPECT_EQ(policy_.asked.back().in_way_ns, 0u);
  // While it wants nothing nobody is asked, and the verdict holds for as long as it said.
  const size_t asked = policy_.asked.size();
  EXPECT_EQ(look(false, false, true, 3 * kMs), 2u);
  EXPECT_EQ(look(false, false, true, 5 * kMs), 0u);
  EXPECT_EQ(policy_.asked.size(), asked);
  // Another verdict ends it.
  EXPECT_EQ(look(false, true, true, 6 * kMs), 2u);
  policy_.verdict = {};
  EXPECT_EQ(look(false, true, true, 7 * kMs), 0u);
  EXPECT_EQ(look(false, false, true, 7 * kMs + 1), 0u);
  // And so does the end of the urgent one's work.
  policy_.verdict = policy::Verdict::Hold(~uint32_t{0});
  EXPECT_EQ(look(false, true, true, 8 * kMs), 2u);
  EXPECT_EQ(look(false, true, false, 8 * kMs + KernelPaces::kLingerNs + 1), 0u);
  // Nobody is held for long whom nobody asks about.
  EXPECT_EQ(look(false, true, true, 200 * kMs), 2u);
  EXPECT_EQ(look(false, false, true, 200 * kMs + KernelPaces::kLongestHoldNs), 0u);
}

TEST_F(KernelPacesTest, ThePolicyHearsHowTheUrgentOneGetsOn) {
  KernelPaces paces(7);
  PacedSlice slices[] = {
      {.vgpu = 1, .priority = 0, .at_work = true, .busy_ns = 1, .commands = 2},
      {.vgpu = 2, .priority = 3, .at_work = true, .busy_ns = 30 * kMs, .commands = 400},
      {.vgpu = 3, .priority = 1, .at_work = true, .busy_ns = 5, .commands = 6}};
  paces.Look(absl::MakeSpan(slices), kMs, &policy_);
  ASSERT_EQ(policy_.asked.size(), 2u);
  for (const policy::PreemptContext& context : policy_.asked) {
    EXPECT_EQ(context.device, 7u);
    EXPECT_EQ(context.waiting_vgpu, 2u);
    EXPECT_EQ(context.waiting_busy_ns, uint64_t{30 * kMs});
    EXPECT_EQ(context.waiting_commands, 400u);
  }
}

TEST_F(KernelPacesTest, ThePolicyHearsHowLongAgoThatWas) {
  Look(true, true, kMs);
  EXPECT_EQ(Look(true, false, 6 * kMs), Naps({200, 0}));
  EXPECT_EQ(policy_.asked.back().waiting_ns, uint64_t{5 * kMs});
  EXPECT_EQ(Look(true, false, kMs + KernelPaces::kLingerNs + 1), Naps({0, 0}));
}

TEST_F(KernelPacesTest, WhoHasNoKernelsIsNotAskedAbout) {
  EXPECT_EQ(Look(false, true, kMs), Naps({0, 0}));
  EXPECT_TRUE(policy_.asked.empty());
}

TEST_F(KernelPacesTest, OtherVerdictsLeaveItAtFullPaceAndNapsAreBounded) {
  for (const policy::Verdict other : {policy::Verdict::Keep(), policy::Verdict::Yield(),
                                      policy::Verdict(), policy::Verdict::Throttle(0)}) {
    policy_.verdict = other;
    EXPECT_EQ(Look(true, true, kMs), Naps({0, 0}));
  }
  policy_.verdict = policy::Verdict::Throttle(~uint32_t{0});
  EXPECT_EQ(Look(true, true, kMs), Naps({KernelPaces::kLongestNapUs, 0}));
}

TEST_F(KernelPacesTest, EqualsAreNotSlowedDownForEachOther) {
  PacedSlice slices[] = {{.vgpu = 1, .priority = 2, .at_work = true},
                         {.vgpu = 2, .priority = 2, .at_work = true},
                         {.vgpu = 3, .priority = -1, .at_work = true}};
  paces_.Look(absl::MakeSpan(slices), kMs, &policy_);
  EXPECT_EQ(slices[0].nap_us, 0u);
  EXPECT_EQ(slices[1].nap_us, 0u);
  EXPECT_EQ(slices[2].nap_us, 200u);
}

// The number of a slice that has left may be another one's.
TEST_F(KernelPacesTest, WhoLeavesIsForgotten) {
  Look(true, true, kMs);
  PacedSlice alone[] = {{.vgpu = 1, .at_work = true}};
  paces_.Look(absl::MakeSpan(alone), 2 * kMs, &policy_);
  EXPECT_EQ(alone[0].nap_us, 0u);
  EXPECT_EQ(Look(true, false, 3 * kMs), Naps({0, 0}));
}

TEST_F(KernelPacesTest, ABestEffortSliceBesideOneThatIsStuckMayBeKilled) {
  policy_.verdict = policy::Verdict::Kill();
  PacedSlice slices[] = {{.vgpu = 1, .priority = 0, .best_effort = true, .at_work = true},
                         {.vgpu = 2, .priority = 3, .at_work = true, .progressed = true}};
  const auto look = [&](int64_t now_ns) {
    paces_.Look(absl::MakeSpan(slices), now_ns, &policy_);
    return slices[0].kill.has_value();
  };
  for (int64_t ms = 1; ms < 20; ++ms) EXPECT_FALSE(look(ms * kMs));
  slices[1].progressed = false;
  EXPECT_TRUE(look(20 * kMs));
  EXPECT_EQ(slices[0].kill->urgent, 2u);
  EXPECT_EQ(slices[0].kill->in_way_ns, kMs);
  EXPECT_EQ(policy_.asked.back().in_way_ns, uint64_t{kMs});
  EXPECT_EQ(policy_.asked.back().killable, 1u);
  // It has none any more.
  slices[1].at_work = false;
  EXPECT_FALSE(look(21 * kMs));
}

TEST_F(KernelPacesTest, OthersAreNotKilled) {
  policy_.verdict = policy::Verdict::Kill();
  for (int64_t ms = 1; ms < 20; ++ms) {
    PacedSlice slices[] = {{.vgpu = 1, .priority = 0, .at_work = true},
                           {.vgpu = 2, .priority = 3, .best_effort = true, .at_work = true}};
    paces_.Look(absl::MakeSpan(slices), ms * kMs, &policy_);
    EXPECT_FALSE(slices[0].kill.has_value());
    EXPECT_FALSE(slices[1].kill.has_value());
    EXPECT_EQ(slices[0].nap_us, 0u);
  }
  EXPECT_EQ(policy_.asked.back().killable, 0u);
}

TEST_F(KernelPacesTest, WhoLoadsCodeIsMadeWayForAndNotHeldUp) {
  PacedSlice slices[] = {{.vgpu = 1, .priority = 0, .best_effort = true, .at_work = true},
                         {.vgpu = 2, .priority = 3, .loading = true}};
  paces_.Look(absl::MakeSpan(slices), kMs, &policy_);
  // Kernels that go slowly end later.
  EXPECT_EQ(slices[0].nap_us, 0u);
  EXPECT_EQ(policy_.asked.back().waiting_ns, 0u);
  policy_.verdict = policy::Verdict::Kill();
  paces_.Look(absl::MakeSpan(slices), 2 * kMs, &policy_);
  EXPECT_TRUE(slices[0].kill.has_value());
  // Whoever only loads code is in nobody's way.
  slices[0] = {.vgpu = 1, .priority = 0, .best_effort = true, .loading = true};
  slices[1] = {.vgpu = 2, .priority = 3, .at_work = true};
  for (int64_t ms = 3; ms < 10; ++ms) {
    paces_.Look(absl::MakeSpan(slices), ms * kMs, &policy_);
    EXPECT_FALSE(slices[0].kill.has_value());
  }
}

// The urgent one's own kernel is long.
TEST_F(KernelPacesTest, ShortKernelsAreInNobodysWay) {
  policy_.verdict = policy::Verdict::Kill();
  PacedSlice slices[] = {
      {.vgpu = 1, .priority = 0, .best_effort = true, .at_work = true, .progressed = true},
      {.vgpu = 2, .priority = 3, .at_work = true}};
  for (int64_t ms = 1; ms < 20; ++ms) {
    paces_.Look(absl::MakeSpan(slices), ms * kMs, &policy_);
    EXPECT_FALSE(slices[0].kill.has_value());
  }
}

}  // namespace
}  // namespace warpline::dispatch
