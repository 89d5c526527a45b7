// Those who come regularly and are expected, and reservations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "policy/band.h"
#include "policy/builtin.h"
#include "policy/reservation.h"
#include "server/gpu_server/dispatch/engine_arbiter.h"
#include "server/gpu_server/dispatch/testing/simulated_gpu.h"

namespace warpline::dispatch {
namespace {

// --- Those who come regularly are expected.

// Requests of a kernel of a millisecond, with that priority, and their latencies.
class Requests {
 public:
  Requests(SimulatedGpu* gpu, ContenderTerms terms, int64_t every_ns = 10 * kMs,
           int64_t kernel_ns = kMs)
      : gpu_(gpu),
        every_ns_(every_ns),
        tenant_(gpu->Add(terms, {{Engine::kCompute, kernel_ns, 0, every_ns}})) {}

  // The latency that half of them exceed, and one in a hundred, and the worst one.
  struct Latency {
    int64_t p50_ns = 0;
    int64_t p99_ns = 0;
    int64_t most_ns = 0;
  };
  Latency Measure(int requests) {
    std::vector<int64_t> latencies;
    uint64_t complete = tenant_->complete();
    for (const int64_t end_ns = gpu_->now_ns() + requests * every_ns_; gpu_->now_ns() < end_ns;) {
      gpu_->Run(every_ns_ / 10);
      if (tenant_->complete() == complete) continue;
      complete = tenant_->complete();
      latencies.push_back(tenant_->latency_ns());
    }
    std::sort(latencies.begin(), latencies.end());
    return {latencies[latencies.size() / 2], latencies[latencies.size() * 99 / 100],
            latencies.back()};
  }
  SimulatedTenant* tenant() { return tenant_; }

 private:
  SimulatedGpu* const gpu_;
  const int64_t every_ns_;
  SimulatedTenant* const tenant_;
};

// As a program that trains has them: many short ones, then some that take long. A step takes 5.6
// ms.
std::vector<SimulatedWork> TrainingStep() {
  std::vector<SimulatedWork> step(40, {Engine::kCompute, 20'000});
  step.insert(step.end(), 8, {Engine::kCompute, 600'000});
  return step;
}

ContenderTerms Urgent(uint32_t vgpu, int32_t priority = 10) {
  ContenderTerms terms = Weight(1, priority);
  terms.vgpu = vgpu;
  return terms;
}

TEST(EngineArbiter, WhoComesRegularlyFindsLittleInFlight) {
  policy::StrictPriority priority;
  Requests::Latency latency[2];
  int64_t kept_ns[2];
  for (const bool expects : {false, true}) {
    ArbiterOptions options;
    if (!expects) options.expect_ns = 0;
    SimulatedGpu gpu(&priority, options);
    SimulatedTenant* const trains = gpu.Add(Named(2), TrainingStep());
    // Not always at the same place in a step.
    Requests requests(&gpu, Urgent(1), 9'700'000);
    gpu.Run(200 * kMs);
    trains->TakeUsed(Engine::kCompute);
    latency[expects] = requests.Measure(1000);
    kept_ns[expects] = trains->TakeUsed(Engine::kCompute);
  }
  // A millisecond is the request's own. Otherwise up to eight kernels of 600 us are in flight,
  // which were taken for short ones when they were issued.
  EXPECT_GE(latency[false].p99_ns, 5 * kMs);
  EXPECT_LE(latency[true].p99_ns, 3'200'000);
  EXPECT_LE(latency[true].p50_ns, 1'800'000);
  EXPECT_GE(kept_ns[true], kept_ns[false] * 97 / 100) << kept_ns[true] << " of " << kept_ns[false];
}

TEST(EngineArbiter, WhyOneWasLimitedCanBeReadAfterwards) {
  policy::StrictPriority priority;
  SimulatedGpu gpu(&priority);
  gpu.Add(Named(2), TrainingStep());
  Requests requests(&gpu, Urgent(1));
  gpu.Run(kSecond);
  const std::vector<TraceSpan> limits = SpansOf(gpu, TraceKind::kLimit, 2);
  ASSERT_GT(limits.size(), 50u);
  for (const TraceSpan& limit : limits) {
    EXPECT_EQ(limit.reason, TraceReason::kExpected);
    EXPECT_EQ(limit.other, 1u);
    EXPECT_LE(limit.end_ns - limit.begin_ns, 5 * kMs);
  }
  EXPECT_TRUE(SpansOf(gpu, TraceKind::kLimit, 1).empty());
}

TEST(EngineArbiter, NobodyIsLimitedForWhomItNeedNotYieldTo) {
  policy::StrictPriority priority;
  policy::Band band;
  for (policy::Policy* const policy :
       {static_cast<policy::Policy*>(&priority), static_cast<policy::Policy*>(&band)}) {
    SimulatedGpu gpu(policy);
    SimulatedTenant* const trains = gpu.Add(Named(2), TrainingStep());
    // Of equal priority, and for BAND of any.
    Requests requests(&gpu, Urgent(1, policy == &band ? 10 : 0));
    gpu.Run(kSecond);
    EXPECT_EQ(trains->contender(Engine::kCompute)->limited_ns(), 0) << policy->name();
  }
}

// However many come regularly, or pretend to, others are limited for half of the time at most.
TEST(EngineArbiter, ManyWhoComeRegularlyLimitOthersForHalfOfTheTimeAtMost) {
  policy::StrictPriority priority;
  SimulatedGpu gpu(&priority);
  SimulatedTenant* const trains = gpu.Add(Named(100), TrainingStep());
  std::vector<std::unique_ptr<Requests>> requests;
  for (uint32_t i = 1; i <= 8; ++i) {
    requests.push_back(std::make_unique<Requests>(&gpu, Urgent(i), 10 * kMs, 20'000));
    gpu.Run(1'200'000);
  }
  gpu.Run(2 * kSecond);
  const int64_t before_ns = trains->contender(Engine::kCompute)->limited_ns();
  gpu.Run(2 * kSecond);
  const int64_t limited_ns = trains->contender(Engine::kCompute)->limited_ns() - before_ns;
  EXPECT_GE(limited_ns, 2 * kSecond * 40 / 100) << "the test is of no use";
  EXPECT_LE(limited_ns, 2 * kSecond * 52 / 100);
}

TEST(EngineArbiter, WhoOnlyPretendsToComeRegularlyLimitsNobody) {
  policy::StrictPriority priority;
  SimulatedGpu gpu(&priority);
  SimulatedTenant* const trains = gpu.Add(Named(2), TrainingStep());
  SimulatedTenant* const liar = gpu.Add(Urgent(1), Kernels(kShort));
  liar->Switch(false);
  liar->lie = [&](SimulatedTenant* tenant) {
    tenant->line(Engine::kCompute).executors_waiting = gpu.now_ns() % (10 * kMs) < 200'000 ? 1 : 0;
  };
  gpu.Run(2 * kSecond);
  EXPECT_EQ(trains->contender(Engine::kCompute)->limited_ns(), 0);
}

// --- Reservations.

ContenderTerms Reserved(uint32_t vgpu, int64_t period_ns, int64_t budget_ns) {
  ContenderTerms terms = Named(vgpu);
  terms.period_ns = period_ns;
  terms.budget_ns = budget_ns;
  return terms;
}

// 6 of each 20 ms, of which it is promised 8, beside one that has ten times its weight.
TEST(EngineArbiter, DeadlinesOfAReservationHoldBesideAGreedyTenant) {
  policy::Reservation reservation;
  policy::Band band;
  for (policy::Policy* const policy :
       {static_cast<policy::Policy*>(&reservation), static_cast<policy::Policy*>(&band)}) {
    SimulatedGpu gpu(policy);
    ContenderTerms greedy = Weight(10);
    greedy.vgpu = 2;
    SimulatedTenant* const other = gpu.Add(greedy, TrainingStep());
    Requests requests(&gpu, Reserved(1, 20 * kMs, 8 * kMs), 20 * kMs, 6 * kMs);
    gpu.Run(kSecond);
    other->TakeUsed(Engine::kCompute);
    const Requests::Latency latency = requests.Measure(200);
    if (policy == &band) {
      EXPECT_GT(latency.p99_ns, 20 * kMs) << "its weight is not enough";
    } else {
      EXPECT_LE(latency.most_ns, 10 * kMs);
      EXPECT_GE(other->TakeUsed(Engine::kCompute), 4 * kSecond * 60 / 100);
    }
  }
}

// Also where it has used its budget to the end, which is whole again when it comes.
TEST(EngineArbiter, WhoComesWithinAReservationFindsLittleInFlight) {
  policy::Reservation reservation;
  for (const int64_t budget_ns : {2 * kMs, kMs}) {
    Requests::Latency latency[2];
    for (const bool expects : {false, true}) {
      ArbiterOptions options;
      if (!expects) options.expect_ns = 0;
      SimulatedGpu gpu(&reservation, options);
      gpu.Add(Named(2), TrainingStep());
      Requests requests(&gpu, Reserved(1, 9'700'000, budget_ns), 9'700'000);
      gpu.Run(200 * kMs);
      latency[expects] = requests.Measure(500);
    }
    EXPECT_GE(latency[false].p50_ns, 3 * kMs) << budget_ns;
    EXPECT_LE(latency[true].p50_ns, 2 * kMs) << budget_ns;
  }
}

TEST(EngineArbiter, ReservationsWithDifferentPeriodsHoldTogether) {
  policy::Reservation reservation;
  SimulatedGpu gpu(&reservation);
  gpu.Add(Named(9), Kernels(kMs));
  Requests often(&gpu, Reserved(1, 20 * kMs, 5 * kMs), 20 * kMs, 4 * kMs);
  Requests seldom(&gpu, Reserved(2, 50 * kMs, 20 * kMs), 50 * kMs, kMs);
  // Its request takes 16 ms.
  std::vector<SimulatedWork> request(16, {Engine::kCompute, kMs});
  request.back() = {Engine::kCompute, kMs, 0, 80 * kMs};
  SimulatedTenant* const large = gpu.Add(Reserved(3, 80 * kMs, 18 * kMs), request);
  gpu.Run(kSecond);
  EXPECT_LE(often.Measure(100).most_ns, 20 * kMs);
  EXPECT_LE(seldom.Measure(40).most_ns, 50 * kMs);
  EXPECT_LE(large->latency_ns(), 80 * kMs);
}

// It has work all of the time, in kernels that are longer than its budget.
TEST(EngineArbiter, WhoOverrunsItsReservationStarvesNobody) {
  policy::Reservation reservation;
  for (const int64_t kernel_ns : {kShort, kLong, 30 * kMs}) {
    SimulatedGpu gpu(&reservation);
    ContenderTerms overruns = Reserved(1, 10 * kMs, 2 * kMs);
    SimulatedTenant* const first = gpu.Add(overruns, Kernels(kernel_ns));
    ContenderTerms honest = Weight(9);
    honest.vgpu = 2;
    SimulatedTenant* const second = gpu.Add(honest, Kernels(kShort));
    gpu.Run(2 * kSecond);
    first->TakeUsed(Engine::kCompute);
    second->TakeUsed(Engine::kCompute);
    gpu.Run(10 * kSecond);
    const auto one = static_cast<double>(first->TakeUsed(Engine::kCompute));
    const auto two = static_cast<double>(second->TakeUsed(Engine::kCompute));
    // What it was promised is more than its share by weight, a tenth, and less than that of both.
    EXPECT_GE(one / (one + two), 0.17) << kernel_ns;
    EXPECT_LE(one / (one + two), 0.30) << kernel_ns;
    EXPECT_GE((one + two) / (10 * kSecond), 0.85) << kernel_ns;
  }
}

TEST(EngineArbiter, WhoIsAloneHasEverythingWhateverItsReservationIs) {
  policy::Reservation reservation;
  SimulatedGpu gpu(&reservation);
  SimulatedTenant* const alone = gpu.Add(Reserved(1, 10 * kMs, kMs), Kernels(kShort));
  SimulatedTenant* const idle = gpu.Add(Named(2), Kernels(kShort));
  idle->Switch(false);
  gpu.Run(kSecond);
  EXPECT_GE(alone->TakeUsed(Engine::kCompute), kSecond * 98 / 100);
  EXPECT_EQ(alone->contender(Engine::kCompute)->ledger().reservation().left_ns(), kMs);
}

}  // namespace
}  // namespace warpline::dispatch
