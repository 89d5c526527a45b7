#include "server/gpu_server/dispatch/engine_arbiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "policy/band.h"
#include "policy/builtin.h"
#include "server/gpu_server/dispatch/testing/simulated_gpu.h"

namespace warpline::dispatch {
namespace {

// Runs both for ten seconds, and holds each second and all of them to the share of the first.
void ExpectShares(SimulatedGpu* gpu, SimulatedTenant* first, SimulatedTenant* second,
                  double share) {
  // What was queued while the engine was open is paid for first.
  gpu->Run(2 * kSecond);
  first->TakeUsed(Engine::kCompute);
  second->TakeUsed(Engine::kCompute);
  double all_first = 0, all = 0;
  for (int i = 0; i < 10; ++i) {
    gpu->Run(kSecond);
    const auto one = static_cast<double>(first->TakeUsed(Engine::kCompute));
    const auto two = static_cast<double>(second->TakeUsed(Engine::kCompute));
    EXPECT_NEAR(one / (one + two), share, 0.03) << "in second " << i;
    all_first += one;
    all += one + two;
  }
  EXPECT_NEAR(all_first / all / share, 1, 0.03);
  EXPECT_NEAR((1 - all_first / all) / (1 - share), 1, 0.03);
  EXPECT_GE(all, 0.9 * 10 * kSecond);
}

struct Pair {
  uint32_t weight;
  int64_t first_ns;
  int64_t second_ns;
};

class Shares : public testing::TestWithParam<Pair> {};

TEST_P(Shares, AreThoseOfTheWeights) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  const Pair& pair = GetParam();
  SimulatedTenant* const first = gpu.Add(Weight(pair.weight), Kernels(pair.first_ns));
  SimulatedTenant* const second = gpu.Add(Weight(1), Kernels(pair.second_ns));
  ExpectShares(&gpu, first, second, pair.weight / (pair.weight + 1.0));
}

INSTANTIATE_TEST_SUITE_P(OfWeightsAndLengths, Shares,
                         testing::Values(Pair{1, kShort, kShort}, Pair{1, kShort, kLong},
                                         Pair{1, kLong, kLong}, Pair{3, kShort, kShort},
                                         Pair{3, kShort, kLong}, Pair{3, kLong, kShort},
                                         Pair{3, kLong, kLong}, Pair{10, kShort, kShort},
                                         Pair{10, kShort, kLong}, Pair{10, kLong, kShort},
                                         Pair{10, kLong, kLong}),
                         [](const auto& info) {
                           return "w" + std::to_string(info.param.weight) + "_" +
                                  std::to_string(info.param.first_ns / 1000) + "us_" +
                                  std::to_string(info.param.second_ns / 1000) + "us";
                         });

// The light one has one turn where the heavy one has ten on end.
TEST(EngineArbiter, WhatGoingOverCostsIsNotPaidByWhoHasFewTurns) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  gpu.switch_ns = 150'000;
  SimulatedTenant* const first = gpu.Add(Weight(10), Kernels(kShort));
  SimulatedTenant* const second = gpu.Add(Weight(1), Kernels(kShort));
  ExpectShares(&gpu, first, second, 10.0 / 11);
}

// Its turns end with each kernel.
TEST(EngineArbiter, WhoHasShortTurnsPaysForThem) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  SimulatedTenant* const brief = gpu.Add(Weight(1), Kernels(100'000, /*host_ns=*/500'000));
  gpu.Add(Weight(1), Kernels(kShort));
  gpu.Run(2 * kSecond);
  const Contender* const contender = brief->contender(Engine::kCompute);
  const int64_t before_ns = contender->charged_ns();
  brief->TakeUsed(Engine::kCompute);
  gpu.Run(2 * kSecond);
  const int64_t used_ns = brief->TakeUsed(Engine::kCompute);
  EXPECT_GT(used_ns, 0);
  EXPECT_GE(contender->charged_ns() - before_ns, used_ns * 19 / 20);
}

// The driver loads the code of a kernel that was never launched before, for longer than a turn
// waits to be used.
TEST(EngineArbiter, AKernelThatIsBeingLoadedKeepsItsTurn) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  ContenderTerms terms = Weight(1);
  terms.vgpu = 1;
  gpu.Add(terms, {{.ns = kShort, .host_ns = kMs, .issue_ns = 3 * kMs}});
  terms.vgpu = 2;
  gpu.Add(terms, Kernels(kShort));
  gpu.Run(kSecond);
  const std::vector<TraceSpan> turns = SpansOf(gpu, TraceKind::kTurn, 1);
  EXPECT_FALSE(turns.empty());
  for (const TraceSpan& turn : turns) EXPECT_NE(turn.reason, TraceReason::kNotCome);
}

// A program that launches now and then waits for a neighbour's least turn, and for what that has in
// flight: 2 ms and 1 ms, a nap of the executor and two looks.
TEST(EngineArbiter, AShortKernelNowAndThenWaitsForNoWholeTurn) {
  for (const int64_t neighbours_ns : {kShort, kMs}) {
    policy::Band band;
    SimulatedGpu gpu(&band);
    SimulatedTenant* const brief = gpu.Add(Weight(1), Kernels(20'000, /*host_ns=*/kMs));
    gpu.Add(Weight(1), Kernels(neighbours_ns));
    gpu.Run(kSecond);
    int64_t worst_ns = 0;
    for (int i = 0; i < 2000; ++i) {
      gpu.Run(kMs);
      worst_ns = std::max(worst_ns, brief->latency_ns());
    }
    EXPECT_LE(worst_ns, 2 * kMs + std::max(kMs, 2 * neighbours_ns) + kMs) << neighbours_ns;
  }
}

// Kernels of 100 ms cannot be stopped, and others may run beside them after a while; they are
// charged for.
TEST(EngineArbiter, OverlongKernelsArePaidForLater) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  SimulatedTenant* const brief = gpu.Add(Weight(1), Kernels(kShort));
  SimulatedTenant* const endless = gpu.Add(Weight(1), Kernels(100 * kMs));
  gpu.Run(10 * kSecond);
  const auto one = static_cast<double>(brief->TakeUsed(Engine::kCompute));
  const auto two = static_cast<double>(endless->TakeUsed(Engine::kCompute));
  EXPECT_NEAR(one / (one + two), 0.5, 0.03);
}

// A session in each of two hardware contexts is one slice's all the same.
TEST(EngineArbiter, ASliceInTwoContextsHasOneShare) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  ContenderTerms both = Weight(1);
  both.ledger = "both";
  SimulatedTenant* const isolated = gpu.Add(both, Kernels(kShort));
  both.domain = 1;
  SimulatedTenant* const guarded = gpu.Add(both, Kernels(kShort));
  SimulatedTenant* const honest = gpu.Add(Weight(1), Kernels(kShort));
  gpu.Run(10 * kSecond);
  const int64_t two = isolated->TakeUsed(Engine::kCompute) + guarded->TakeUsed(Engine::kCompute);
  const int64_t one = honest->TakeUsed(Engine::kCompute);
  EXPECT_NEAR(static_cast<double>(one) / static_cast<double>(one + two), 0.5, 0.03);
  EXPECT_GE(one + two, 9 * kSecond);
}

// Each of its sessions has one kernel, which takes long, and ends after it.
double ShareOfWhoLeaves(const std::vector<std::string>& ledgers) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  SimulatedTenant* const honest = gpu.Add(Weight(1), Kernels(kShort));
  ContenderTerms terms = Weight(1);
  terms.tenant = 7;
  int64_t had = 0;
  const int64_t end_ns = gpu.now_ns() + 20 * kSecond;
  for (size_t i = 0; gpu.now_ns() < end_ns; ++i) {
    terms.ledger = ledgers[i % ledgers.size()];
    SimulatedTenant* const leaver = gpu.Add(terms, Kernels(200 * kMs));
    while (leaver->complete() == 0 && gpu.now_ns() < end_ns) gpu.Run(kMs);
    had += leaver->TakeUsed(Engine::kCompute);
    gpu.Leave(leaver);
  }
  const int64_t others = honest->TakeUsed(Engine::kCompute);
  return static_cast<double>(had) / static_cast<double>(had + others);
}

TEST(EngineArbiter, WhoLeavesInDebtFindsItAgain) { EXPECT_LE(ShareOfWhoLeaves({"a"}), 0.53); }

TEST(EngineArbiter, WhoLeavesInDebtLeavesItToItsTenant) {
  EXPECT_LE(ShareOfWhoLeaves({"a", "b", "c"}), 0.53);
}

TEST(EngineArbiter, WhoIsAloneHasEverythingAndIsNotCharged) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  SimulatedTenant* const alone = gpu.Add(Weight(1), Kernels(kShort));
  SimulatedTenant* const idle = gpu.Add(Weight(10), Kernels(kShort));
  idle->Switch(false);
  gpu.Run(kSecond);
  EXPECT_GE(alone->TakeUsed(Engine::kCompute), kSecond * 98 / 100);
  EXPECT_EQ(alone->contender(Engine::kCompute)->charged_ns(), 0);
  EXPECT_FALSE(gpu.arbiter(Engine::kCompute).in_turns());
}

TEST(EngineArbiter, WhatOneLeavesTheOtherHas) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  SimulatedTenant* const greedy = gpu.Add(Weight(1), Kernels(kShort));
  // It has work for a fifth of the time, and is promised half of it.
  SimulatedTenant* const modest = gpu.Add(Weight(1), Kernels(2 * kMs, 8 * kMs));
  gpu.Run(5 * kSecond);
  const int64_t one = greedy->TakeUsed(Engine::kCompute);
  const int64_t two = modest->TakeUsed(Engine::kCompute);
  EXPECT_GE(one + two, 5 * kSecond * 90 / 100)
      << one << " " << two << " turns " << modest->contender(Engine::kCompute)->turns() << " "
      << greedy->contender(Engine::kCompute)->turns();
  // It waits for no more than one of the other's turns at a time.
  EXPECT_GE(two, 5 * kSecond * 12 / 100);
}

TEST(EngineArbiter, WhyALaunchWaitedCanBeReadAfterwards) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  gpu.Add(Named(1), Kernels(kLong));
  SimulatedTenant* const other = gpu.Add(Named(2), Kernels(kShort));
  gpu.Run(kSecond);
  const std::vector<TraceSpan> waits = SpansOf(gpu, TraceKind::kWait, 2);
  const std::vector<TraceSpan> turns = SpansOf(gpu, TraceKind::kTurn, 1);
  ASSERT_GT(waits.size(), 20u);
  ASSERT_GT(turns.size(), 20u);
  int explained = 0;
  for (const TraceSpan& wait : waits) {
    EXPECT_EQ(wait.engine, EngineIndex(Engine::kCompute));
    // One launch that waited: for whom, and what that one had the device for meanwhile.
    if (wait.reason != TraceReason::kTurnOfAnother) continue;
    EXPECT_EQ(wait.other, 1u);
    explained += std::any_of(turns.begin(), turns.end(), [&](const TraceSpan& turn) {
      return turn.begin_ns < wait.end_ns && turn.end_ns > wait.begin_ns;
    });
  }
  EXPECT_GT(explained, 20);
  for (const TraceSpan& turn : turns) {
    EXPECT_LT(turn.begin_ns, turn.end_ns);
    EXPECT_GT(turn.charged_ns, 0);
    EXPECT_TRUE(turn.reason == TraceReason::kUsedUp || turn.reason == TraceReason::kYielded)
        << NameOf(turn.reason);
  }
  // What one has in flight while it has the engine is one span, or a few.
  EXPECT_FALSE(SpansOf(gpu, TraceKind::kWork, 2).empty());
  other->Switch(false);
  gpu.Run(kSecond);
  EXPECT_EQ(SpansOf(gpu, TraceKind::kTurn, 1).back().reason, TraceReason::kAlone);
}

TEST(EngineArbiter, WhomThePolicyHasWaitIsRecordedSo) {
  class HoldsSecond : public policy::Policy {
   public:
    std::string_view name() const override { return "holds_second"; }
    policy::Verdict OnDispatch(const policy::DispatchContext& c) override {
      return holds && c.head.vgpu == 2 ? policy::Verdict::Hold(5000) : policy::Verdict::Run();
    }

    bool holds = true;
  };
  HoldsSecond policy;
  SimulatedGpu gpu(&policy);
  gpu.Add(Named(1), Kernels(kShort));
  gpu.Add(Named(2), Kernels(kShort));
  gpu.Run(100 * kMs);
  policy.holds = false;
  gpu.Run(100 * kMs);
  const std::vector<TraceSpan> waits = SpansOf(gpu, TraceKind::kWait, 2);
  ASSERT_FALSE(waits.empty());
  EXPECT_EQ(waits.front().reason, TraceReason::kHeld);
  EXPECT_GT(waits.front().end_ns - waits.front().begin_ns, 80 * kMs);
}

// A host that waits for each of its kernels of 50 us and comes back with the next one.
TEST(EngineArbiter, ShortKernelsThatAreWaitedForKeepTheirTurn) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  SimulatedTenant* const waits = gpu.Add(Weight(1), Kernels(kShort, 20'000));
  SimulatedTenant* const greedy = gpu.Add(Weight(1), Kernels(kLong));
  gpu.Run(5 * kSecond);
  const int64_t one = waits->TakeUsed(Engine::kCompute);
  const int64_t two = greedy->TakeUsed(Engine::kCompute);
  // Half of the time, of which a good part is the host's.
  EXPECT_GE(one, 5 * kSecond / 4);
  EXPECT_LE(two, 5 * kSecond * 55 / 100);
}

TEST(EngineArbiter, TheLastOneLeftIsOpenAgain) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  SimulatedTenant* const stays = gpu.Add(Weight(1), Kernels(kShort));
  SimulatedTenant* const leaves = gpu.Add(Weight(10), Kernels(kShort));
  gpu.Run(kSecond);
  EXPECT_TRUE(gpu.arbiter(Engine::kCompute).in_turns());
  leaves->Switch(false);
  gpu.Run(200 * kMs);
  EXPECT_FALSE(gpu.arbiter(Engine::kCompute).in_turns());
  stays->TakeUsed(Engine::kCompute);
  gpu.Run(kSecond);
  EXPECT_GE(stays->TakeUsed(Engine::kCompute), kSecond * 98 / 100);
}

TEST(EngineArbiter, CopiesAndKernelsDoNotStarveEachOther) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  SimulatedTenant* const computes = gpu.Add(Weight(1), Kernels(kShort));
  SimulatedTenant* const copies = gpu.Add(Weight(1), {{Engine::kCopyIn, 300'000, -1}});
  SimulatedTenant* const both =
      gpu.Add(Weight(1), {{Engine::kCopyIn, 500'000, -1}, {Engine::kCompute, 500'000, -1}});
  gpu.Run(5 * kSecond);
  EXPECT_GE(computes->TakeUsed(Engine::kCompute), 5 * kSecond * 45 / 100);
  EXPECT_GE(copies->TakeUsed(Engine::kCopyIn), 5 * kSecond * 45 / 100);
  EXPECT_GE(both->TakeUsed(Engine::kCopyIn), 5 * kSecond * 10 / 100);
  EXPECT_GE(both->TakeUsed(Engine::kCompute), 5 * kSecond * 10 / 100);
}

// Those of one context run at once, and its turn is theirs together.
TEST(EngineArbiter, SlicesOfOneDomainHaveTheirTurnsTogether) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  ContenderTerms shared = Weight(1);
  shared.domain = 7;
  SimulatedTenant* const one = gpu.Add(shared, Kernels(kShort));
  SimulatedTenant* const two = gpu.Add(shared, Kernels(kShort));
  SimulatedTenant* const apart = gpu.Add(Weight(2), Kernels(kShort));
  gpu.Run(5 * kSecond);
  const auto first = static_cast<double>(one->TakeUsed(Engine::kCompute));
  const auto second = static_cast<double>(two->TakeUsed(Engine::kCompute));
  const auto third = static_cast<double>(apart->TakeUsed(Engine::kCompute));
  const double all = first + second + third;
  EXPECT_NEAR(first / all, 0.25, 0.03);
  EXPECT_NEAR(second / all, 0.25, 0.03);
  EXPECT_NEAR(third / all, 0.5, 0.03);
}

// --- Those who lie. Each has the weight of the honest one, whose share is half.

class Liars : public testing::Test {
 protected:
  void Lie(std::function<void(SimulatedTenant*)> lie) {
    liar_->lie = std::move(lie);
    gpu_.Run(4 * kSecond);
    const auto honest = static_cast<double>(honest_->TakeUsed(Engine::kCompute));
    const auto liar = static_cast<double>(liar_->TakeUsed(Engine::kCompute));
    EXPECT_LE(liar, 0.53 * (honest + liar));
    EXPECT_GE(honest, 0.40 * 4 * kSecond);
  }

  policy::Band band_;
  SimulatedGpu gpu_{&band_};
  SimulatedTenant* const honest_ = gpu_.Add(Weight(1), Kernels(kShort));
  SimulatedTenant* const liar_ = gpu_.Add(Weight(1), Kernels(kShort));
};

TEST_F(Liars, NothingInFlight) {
  Lie([](SimulatedTenant* liar) { liar->line(Engine::kCompute).executors_in_flight = 0; });
}

TEST_F(Liars, AlwaysInFlight) {
  Lie([](SimulatedTenant* liar) { liar->line(Engine::kCompute).executors_in_flight = 1u << 31; });
}

TEST_F(Liars, InFlightWithoutWork) {
  liar_->Switch(false);
  Lie([](SimulatedTenant* liar) { liar->line(Engine::kCompute).executors_in_flight = 1; });
}

TEST_F(Liars, WaitsForEverWithoutWork) {
  liar_->Switch(false);
  Lie([](SimulatedTenant* liar) { liar->line(Engine::kCompute).executors_waiting = 1; });
  EXPECT_GE(honest_->contender(Engine::kCompute)->charged_ns() +
                honest_->contender(Engine::kCompute)->ledger().credit_ns(),
            0);
}

TEST_F(Liars, HugeAndBackwards) {
  Lie([n = uint64_t{0}](SimulatedTenant* liar) mutable {
    WorkerLine& line = liar->line(Engine::kCompute);
    line.executors_waiting = ~uint32_t{0};
    line.busy_ns = ++n % 2 == 0 ? ~uint64_t{0} : 0;
    line.commands = ~uint64_t{0} - n;
    line.bytes = n % 3;
    line.busy_since_ns = n % 2 == 0 ? INT64_MIN : INT64_MAX;
  });
}

TEST_F(Liars, Flickers) {
  Lie([n = 0](SimulatedTenant* liar) mutable {
    liar->line(Engine::kCompute).executors_in_flight = ++n % 2;
    liar->line(Engine::kCompute).executors_waiting = n / 2 % 2;
  });
}

// --- A policy that wants to be asked about who is alone, and one that does not.

// A budget for each tenant of a part of the time, as policy/examples/token_bucket.bpf.c has it.
class Budget : public policy::Policy {
 public:
  explicit Budget(bool always) : always_(always) {}
  std::string_view name() const override { return "budget"; }
  policy::Wishes wishes() const override {
    return {.asked_always = always_, .longest_wait_ns = kSecond};
  }
  policy::Verdict OnDispatch(const policy::DispatchContext& context) override {
    ++asked;
    const auto now_ns = static_cast<int64_t>(context.head.now_ns);
    if (filled_ns_ != 0) left_ns_ = std::min(left_ns_ + (now_ns - filled_ns_) / 4, 10 * kMs);
    filled_ns_ = now_ns;
    return left_ns_ > 0 ? policy::Verdict::Run() : policy::Verdict::Hold(1000);
  }
  void OnRetire(const policy::RetireContext& context) override {
    left_ns_ -= static_cast<int64_t>(context.actual_ns);
  }

  int asked = 0;

 private:
  const bool always_;
  int64_t left_ns_ = 0;
  int64_t filled_ns_ = 0;
};

TEST(EngineArbiter, WhoIsAloneIsHeldBackByAPolicyThatIsAskedAlways) {
  for (const int64_t kernel_ns : {kShort, kMs, kLong}) {
    Budget budget(/*always=*/true);
    SimulatedGpu gpu(&budget);
    SimulatedTenant* const alone = gpu.Add(Weight(1), Kernels(kernel_ns));
    gpu.Run(kSecond);
    alone->TakeUsed(Engine::kCompute);
    gpu.Run(10 * kSecond);
    const auto used = static_cast<double>(alone->TakeUsed(Engine::kCompute));
    EXPECT_NEAR(used / (10 * kSecond), 0.25, 0.02) << kernel_ns;
    EXPECT_GT(budget.asked, 100);
  }
}

TEST(EngineArbiter, WhoIsAloneAndMayHasTheEngineLikeBefore) {
  class Always : public policy::Policy {
   public:
    std::string_view name() const override { return "always"; }
    policy::Wishes wishes() const override { return {.asked_always = true}; }
  };
  Always always;
  SimulatedGpu gpu(&always);
  SimulatedTenant* const alone = gpu.Add(Weight(1), Kernels(kShort));
  gpu.Run(kSecond);
  EXPECT_GE(alone->TakeUsed(Engine::kCompute), kSecond * 97 / 100);
  // With pauses, too, in which the engine is not taken from it before the end of its turn.
  SimulatedGpu paused_gpu(&always);
  SimulatedTenant* const pauses = paused_gpu.Add(Weight(1), Kernels(kMs, kMs / 2));
  paused_gpu.Run(kSecond);
  EXPECT_GE(pauses->TakeUsed(Engine::kCompute), kSecond * 60 / 100);
  EXPECT_LE(pauses->contender(Engine::kCompute)->turns(), 175u);
}

TEST(EngineArbiter, OtherPoliciesAreNotAskedAboutWhoIsAlone) {
  Budget budget(/*always=*/false);
  SimulatedGpu gpu(&budget);
  SimulatedTenant* const alone = gpu.Add(Weight(1), Kernels(kShort));
  gpu.Run(2 * kSecond);
  EXPECT_GE(alone->TakeUsed(Engine::kCompute), 2 * kSecond * 98 / 100);
  EXPECT_EQ(budget.asked, 0);
}

// Two that are held back by the same budget have it in turns.
TEST(EngineArbiter, APolicyThatIsAskedAlwaysDividesWhatItGivesByTurns) {
  Budget budget(/*always=*/true);
  SimulatedGpu gpu(&budget);
  SimulatedTenant* const one = gpu.Add(Weight(1), Kernels(kShort));
  SimulatedTenant* const two = gpu.Add(Weight(1), Kernels(kShort));
  gpu.Run(10 * kSecond);
  const auto first = static_cast<double>(one->TakeUsed(Engine::kCompute));
  const auto second = static_cast<double>(two->TakeUsed(Engine::kCompute));
  EXPECT_NEAR((first + second) / (10 * kSecond), 0.25, 0.03);
}

// --- Other policies.

TEST(EngineArbiter, StrictPriorityGoesFirst) {
  policy::StrictPriority priority;
  SimulatedGpu gpu(&priority);
  SimulatedTenant* const urgent = gpu.Add(Weight(1, 1), Kernels(kMs, 9 * kMs));
  SimulatedTenant* const other = gpu.Add(Weight(10), Kernels(kShort));
  int64_t worst_ns = 0;
  for (int i = 0; i < 200; ++i) {
    gpu.Run(10 * kMs);
    worst_ns = std::max(worst_ns, urgent->latency_ns());
  }
  // What the other has in flight, and its own kernel.
  EXPECT_LE(worst_ns, 3 * kMs);
  EXPECT_GE(other->TakeUsed(Engine::kCompute), 2 * kSecond * 75 / 100);
}

// A thousandth of a thousandth is not nothing: shares are divided by.
TEST(EngineArbiter, TheSmallestWeightBesideTheLargestHasAShare) {
  policy::Band band;
  SimulatedGpu gpu(&band);
  SimulatedTenant* const large = gpu.Add(Weight(1000), Kernels(kShort));
  SimulatedTenant* const small = gpu.Add(Weight(1), Kernels(kShort));
  gpu.Run(2 * kSecond);
  EXPECT_GE(gpu.arbiter(Engine::kCompute).ShareOf(*small->contender(Engine::kCompute)), 1u);
  EXPECT_GE(large->TakeUsed(Engine::kCompute), 2 * kSecond * 90 / 100);
}

TEST(EngineArbiter, FifoTakesTurns) {
  policy::Fifo fifo;
  SimulatedGpu gpu(&fifo);
  SimulatedTenant* const first = gpu.Add(Weight(10), Kernels(kShort));
  SimulatedTenant* const second = gpu.Add(Weight(1), Kernels(kShort));
  gpu.Run(2 * kSecond);
  const auto one = static_cast<double>(first->TakeUsed(Engine::kCompute));
  const auto two = static_cast<double>(second->TakeUsed(Engine::kCompute));
  EXPECT_NEAR(one / (one + two), 0.5, 0.03);
}

TEST(EngineArbiter, FinishTimeFairnessHoldsToWeights) {
  policy::FinishTimeFairness fairness;
  SimulatedGpu gpu(&fairness);
  SimulatedTenant* const first = gpu.Add(Weight(3), Kernels(kShort));
  SimulatedTenant* const second = gpu.Add(Weight(1), Kernels(kLong));
  gpu.Run(4 * kSecond);
  const auto one = static_cast<double>(first->TakeUsed(Engine::kCompute));
  const auto two = static_cast<double>(second->TakeUsed(Engine::kCompute));
  EXPECT_NEAR(one / (one + two), 0.75, 0.03);
}

// A policy that has everybody wait delays them, and no more.
class HoldsAll : public policy::Policy {
 public:
  std::string_view name() const override { return "holds"; }
  policy::Verdict OnDispatch(const policy::DispatchContext&) override {
    ++asked;
    return policy::Verdict::Hold(5000);
  }
  int asked = 0;
};

TEST(EngineArbiter, WhoIsHeldIsAskedForAgain) {
  HoldsAll holds;
  SimulatedGpu gpu(&holds);
  gpu.Add(Weight(1), Kernels(kShort));
  gpu.Add(Weight(1), Kernels(kShort));
  gpu.Run(100 * kMs);
  EXPECT_GE(holds.asked, 30);
  EXPECT_LE(holds.asked, 50);
}

// What a policy does not know, or does not answer, BAND does.
class KnowsNothing : public policy::Policy {
 public:
  std::string_view name() const override { return "nothing"; }
  policy::Verdict OnDispatch(const policy::DispatchContext&) override {
    return {static_cast<policy::Action>(77), 5};
  }
  policy::Verdict OnPreempt(const policy::PreemptContext&) override {
    return {policy::Action::kReclaim, 0};
  }
};

TEST(EngineArbiter, UnknownVerdictsAreTheDefault) {
  KnowsNothing nothing;
  SimulatedGpu gpu(&nothing);
  SimulatedTenant* const first = gpu.Add(Weight(3), Kernels(kShort));
  SimulatedTenant* const second = gpu.Add(Weight(1), Kernels(kLong));
  ExpectShares(&gpu, first, second, 0.75);
}

// Holds back copies of whoever moved more than so many bytes in the last second.
class LimitsCopies : public policy::Policy {
 public:
  static constexpr uint64_t kMost = 100 << 20;
  std::string_view name() const override { return "limits copies"; }
  policy::Verdict OnCopyEnqueue(const policy::CopyEnqueueContext& context) override {
    if (context.head.vgpu == 1 && context.io_used_bytes > kMost) return policy::Verdict::Hold(1000);
    return {};
  }
};

TEST(EngineArbiter, CopiesAreHeldBackByWhatWasMoved) {
  LimitsCopies limits;
  SimulatedGpu gpu(&limits);
  ContenderTerms limited = Weight(1);
  limited.vgpu = 1;
  // A copy is of 1 MiB.
  SimulatedTenant* const held = gpu.Add(limited, {{Engine::kCopyIn, 1 * kMs, -1}});
  SimulatedTenant* const free = gpu.Add(Weight(1), {{Engine::kCopyIn, 1 * kMs, -1}});
  gpu.Run(3 * kSecond);
  held->TakeUsed(Engine::kCopyIn);
  free->TakeUsed(Engine::kCopyIn);
  gpu.Run(2 * kSecond);
  EXPECT_LE(held->TakeUsed(Engine::kCopyIn), kMs * 120 * 2);
  EXPECT_GE(free->TakeUsed(Engine::kCopyIn), kMs * 850 * 2);
}

}  // namespace
}  // namespace warpline::dispatch
