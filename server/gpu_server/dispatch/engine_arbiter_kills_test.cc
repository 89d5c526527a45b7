// Of engine_arbiter_kills.cc: work of best-effort slices that is in the way of more urgent ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "policy/policy.h"
#include "server/gpu_server/dispatch/engine_arbiter.h"
#include "server/gpu_server/dispatch/testing/simulated_gpu.h"

namespace warpline::dispatch {
namespace {

// More urgent slices go first, and what is in their way for so long is killed.
class Kills : public policy::Policy {
 public:
  explicit Kills(uint64_t patience_ns = 0) : patience_ns_(patience_ns) {}
  std::string_view name() const override { return "kills"; }
  policy::Wishes wishes() const override { return {.asked_always = true}; }
  policy::Verdict OnDispatch(const policy::DispatchContext& context) override {
    return context.more_urgent_waiting > 0 ? policy::Verdict::Skip() : policy::Verdict();
  }
  policy::Verdict OnPreempt(const policy::PreemptContext& context) override {
    asked.push_back(context);
    const bool waits = context.waiting_priority > context.priority;
    if (waits && context.in_way_ns >= patience_ns_) return policy::Verdict::Kill();
    return waits && context.level == 1 ? policy::Verdict::Yield() : policy::Verdict::Keep();
  }
  std::vector<policy::PreemptContext> asked;

 private:
  const uint64_t patience_ns_;
};

ContenderTerms BestEffort(int32_t priority = 0, uint32_t vgpu = 1) {
  ContenderTerms terms = Named(vgpu);
  terms.priority = priority;
  terms.best_effort = true;
  return terms;
}

ContenderTerms Urgent() {
  ContenderTerms terms = Named(2);
  terms.priority = 3;
  return terms;
}

// The longest that the urgent tenant's kernels of 100 us took, of one every 5 ms.
int64_t WorstOfUrgent(SimulatedGpu* gpu, int64_t ns) {
  SimulatedTenant* const urgent = gpu->Add(Urgent(), Kernels(100'000, 5 * kMs));
  int64_t worst_ns = 0;
  for (int64_t ran_ns = 0; ran_ns < ns; ran_ns += kMs / 2) {
    gpu->Run(kMs / 2);
    worst_ns = std::max(worst_ns, urgent->latency_ns());
  }
  return worst_ns;
}

TEST(EngineArbiter, AKernelInTheWayIsKilled) {
  Kills kills(kMs);
  SimulatedGpu gpu(&kills);
  SimulatedTenant* const effort = gpu.Add(BestEffort(), Kernels(50 * kMs));
  gpu.Run(10 * kMs);
  // The patience, what it takes to end the work, and looks.
  EXPECT_LE(WorstOfUrgent(&gpu, 200 * kMs), 3 * kMs);
  EXPECT_TRUE(effort->killed());
}

TEST(EngineArbiter, WhatIsNotBestEffortIsNeverKilled) {
  Kills kills(0);
  SimulatedGpu gpu(&kills);
  SimulatedTenant* const other = gpu.Add(Named(1), Kernels(50 * kMs));
  gpu.Run(10 * kMs);
  EXPECT_GE(WorstOfUrgent(&gpu, kSecond), 15 * kMs);
  EXPECT_FALSE(other->killed());
  for (const policy::PreemptContext& context : kills.asked) EXPECT_EQ(context.killable, 0u);
  EXPECT_GT(kills.asked.size(), 0u);
}

// A policy that kills whatever it is asked about.
class KillsAll : public policy::Policy {
 public:
  std::string_view name() const override { return "kills all"; }
  policy::Verdict OnPreempt(const policy::PreemptContext&) override {
    return policy::Verdict::Kill();
  }
};

TEST(EngineArbiter, OnlyWhoIsMoreUrgentIsMadeWayFor) {
  for (const int32_t priority : {3, 4}) {
    KillsAll kills;
    SimulatedGpu gpu(&kills);
    SimulatedTenant* const effort = gpu.Add(BestEffort(priority), Kernels(20 * kMs));
    SimulatedTenant* const urgent = gpu.Add(Urgent(), Kernels(20 * kMs));
    gpu.Run(2 * kSecond);
    EXPECT_FALSE(effort->killed()) << priority;
    EXPECT_FALSE(urgent->killed()) << priority;
    EXPECT_GT(urgent->complete(), 0u);
  }
}

TEST(EngineArbiter, APolicyThatKillsAlwaysDoesNotReachOthersThanBestEffort) {
  KillsAll kills;
  SimulatedGpu gpu(&kills);
  SimulatedTenant* const effort = gpu.Add(BestEffort(), Kernels(kLong));
  SimulatedTenant* const plain = gpu.Add(Named(3), Kernels(kLong));
  SimulatedTenant* const urgent = gpu.Add(Urgent(), Kernels(kLong));
  gpu.Run(2 * kSecond);
  EXPECT_TRUE(effort->killed());
  EXPECT_FALSE(plain->killed());
  EXPECT_FALSE(urgent->killed());
  // Among the two that are left its verdicts are BAND's.
  EXPECT_NEAR(static_cast<double>(plain->TakeUsed(Engine::kCompute)) / kSecond, 1, 0.1);
}

TEST(EngineArbiter, WorkThatDrainsIsNotKilled) {
  Kills kills(2 * kMs);
  SimulatedGpu gpu(&kills);
  SimulatedTenant* const effort = gpu.Add(BestEffort(), Kernels(kShort));
  gpu.Run(100 * kMs);
  EXPECT_LE(WorstOfUrgent(&gpu, kSecond), 2 * kMs);
  EXPECT_FALSE(effort->killed());
  EXPECT_GT(effort->TakeUsed(Engine::kCompute), kSecond / 2);
}

TEST(EngineArbiter, NothingIsKilledBeforeItHasBeenInTheWayForAMoment) {
  Kills kills(0);
  SimulatedGpu gpu(&kills);
  gpu.Add(BestEffort(), Kernels(50 * kMs));
  gpu.Run(10 * kMs);
  WorstOfUrgent(&gpu, 100 * kMs);
  for (const policy::PreemptContext& context : kills.asked) {
    EXPECT_EQ(context.killable, context.in_way_ns >= uint64_t{kLeastInWayNs} ? 1u : 0u);
  }
}

TEST(EngineArbiter, SlicesOfOneDomainAreNotInEachOthersWay) {
  Kills kills(0);
  SimulatedGpu gpu(&kills);
  ContenderTerms effort = BestEffort();
  ContenderTerms urgent = Urgent();
  effort.domain = urgent.domain = 7;
  SimulatedTenant* const first = gpu.Add(effort, Kernels(50 * kMs));
  gpu.Add(urgent, Kernels(kShort));
  gpu.Run(kSecond);
  EXPECT_FALSE(first->killed());
}

TEST(EngineArbiter, ATurnThatEndsByAKillIsRecordedSo) {
  // Nothing is given up before it is killed.
  class KillsAlone : public Kills {
   public:
    using Kills::Kills;
    policy::Verdict OnPreempt(const policy::PreemptContext& context) override {
      const policy::Verdict verdict = Kills::OnPreempt(context);
      return verdict.action == policy::Action::kKill ? verdict : policy::Verdict::Keep();
    }
  };
  KillsAlone kills(kMs);
  SimulatedGpu gpu(&kills);
  gpu.Add(BestEffort(), Kernels(50 * kMs));
  gpu.Run(10 * kMs);
  WorstOfUrgent(&gpu, 100 * kMs);
  const auto turns = SpansOf(gpu, TraceKind::kTurn, 1);
  ASSERT_FALSE(turns.empty());
  EXPECT_EQ(turns.back().reason, TraceReason::kKilled);
}

// Nobody gives up a turn: BAND decides, and has the urgent one wait.
TEST(EngineArbiter, ARowOfShortKernelsIsNotKilled) {
  KillsAll kills;
  SimulatedGpu gpu(&kills);
  SimulatedTenant* const effort = gpu.Add(BestEffort(), Kernels(kShort));
  gpu.Run(100 * kMs);
  EXPECT_GE(WorstOfUrgent(&gpu, kSecond), kMs);
  EXPECT_FALSE(effort->killed());
}

}  // namespace
}  // namespace warpline::dispatch
