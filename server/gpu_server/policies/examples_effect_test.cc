// What the policies in policy/examples do to tenants of a simulated device, and to a dispatcher
// that is told of power and the time of day.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "common/unique_fd.h"
#include "policy/bpf/bpf_policy.h"
#include "server/gpu_server/dispatch/dispatcher.h"
#include "server/gpu_server/dispatch/testing/simulated_gpu.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::dispatch {
namespace {

int64_t now_ns = 0;
int64_t wall_us = 0;

std::shared_ptr<policy::bpf::BpfPolicy> Example(const std::string& name) {
  std::ifstream in("policy/examples/" + name + ".bpf.o", std::ios::binary);
  const std::string object{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  auto policy =
      policy::bpf::BpfPolicy::Load(object, {.name = name,
                                            .now_ns = [] { return static_cast<uint64_t>(now_ns); },
                                            .audit = [](uint64_t) {}});
  EXPECT_TRUE(policy.ok()) << policy.status();
  return policy.ok() ? *std::move(policy) : nullptr;
}

ContenderTerms Tenant(uint64_t number, int32_t priority = 0) {
  ContenderTerms terms;
  terms.tenant = number;
  terms.priority = priority;
  return terms;
}

TEST(ExamplesEffect, TokenBucketHoldsWhoIsAloneToItsRate) {
  const auto bucket = Example("token_bucket");
  ASSERT_NE(bucket, nullptr);
  SimulatedGpu gpu(bucket.get());
  SimulatedTenant* const alone = gpu.Add(Tenant(1), Kernels(50'000));
  gpu.Run(kSecond);
  alone->TakeUsed(Engine::kCompute);
  gpu.Run(10 * kSecond);
  EXPECT_NEAR(static_cast<double>(alone->TakeUsed(Engine::kCompute)) / (10 * kSecond), 0.25, 0.02);
}

TEST(ExamplesEffect, TokenBucketHoldsEachTenantToItsRate) {
  const auto bucket = Example("token_bucket");
  ASSERT_NE(bucket, nullptr);
  SimulatedGpu gpu(bucket.get());
  SimulatedTenant* const one = gpu.Add(Tenant(1), Kernels(50'000));
  SimulatedTenant* const two = gpu.Add(Tenant(2), Kernels(5 * kMs));
  gpu.Run(kSecond);
  one->TakeUsed(Engine::kCompute);
  two->TakeUsed(Engine::kCompute);
  gpu.Run(10 * kSecond);
  EXPECT_NEAR(static_cast<double>(one->TakeUsed(Engine::kCompute)) / (10 * kSecond), 0.25, 0.03);
  EXPECT_NEAR(static_cast<double>(two->TakeUsed(Engine::kCompute)) / (10 * kSecond), 0.25, 0.03);
}

TEST(ExamplesEffect, LatencyGuardKeepsBestEffortWorkAway) {
  const auto guard = Example("latency_guard");
  ASSERT_NE(guard, nullptr);
  SimulatedGpu gpu(guard.get());
  // A request is three kernels, 100 us apart.
  SimulatedTenant* const urgent = gpu.Add(Tenant(1, 1), {{Engine::kCompute, kMs / 2, kMs / 10},
                                                         {Engine::kCompute, kMs / 2, kMs / 10},
                                                         {Engine::kCompute, kMs / 2, 9 * kMs}});
  SimulatedTenant* const other = gpu.Add(Tenant(2), Kernels(kMs));
  gpu.Run(kSecond);
  int64_t worst_ns = 0;
  for (int i = 0; i < 1000; ++i) {
    gpu.Run(kMs);
    worst_ns = std::max(worst_ns, urgent->latency_ns());
  }
  // The other one makes way, with little in flight, and goes on in the gaps between requests.
  EXPECT_LE(worst_ns, 3 * kMs);
  EXPECT_GE(other->TakeUsed(Engine::kCompute), kSecond / 2);
}

// The longest of an urgent tenant's kernels of 100 us, of one every 5 ms, beside another's of `ns`.
struct BesideUrgent {
  int64_t worst_ns = 0;
  bool killed = false;
  uint64_t complete = 0;
};
BesideUrgent RunBesideUrgent(policy::Policy* policy, bool best_effort, int64_t ns) {
  SimulatedGpu gpu(policy);
  ContenderTerms terms = Tenant(2);
  terms.best_effort = best_effort;
  SimulatedTenant* const other = gpu.Add(terms, Kernels(ns));
  gpu.Run(200 * kMs);
  SimulatedTenant* const urgent = gpu.Add(Tenant(1, 1), Kernels(kMs / 10, 5 * kMs));
  BesideUrgent result;
  for (int i = 0; i < 1000; ++i) {
    gpu.Run(kMs);
    result.worst_ns = std::max(result.worst_ns, urgent->latency_ns());
  }
  result.killed = other->killed();
  result.complete = other->complete();
  return result;
}

TEST(ExamplesEffect, ReefBoundsTheWaitForALongKernelOfBestEffort) {
  const auto reef = Example("reef");
  ASSERT_NE(reef, nullptr);
  const BesideUrgent with = RunBesideUrgent(reef.get(), /*best_effort=*/true, 50 * kMs);
  EXPECT_TRUE(with.killed);
  EXPECT_LE(with.worst_ns, 4 * kMs);
  const BesideUrgent without = RunBesideUrgent(reef.get(), /*best_effort=*/false, 50 * kMs);
  EXPECT_FALSE(without.killed);
  EXPECT_GE(without.worst_ns, 15 * kMs);
}

TEST(ExamplesEffect, ReefLetsShortKernelsOfBestEffortDrain) {
  const auto reef = Example("reef");
  ASSERT_NE(reef, nullptr);
  const BesideUrgent result = RunBesideUrgent(reef.get(), /*best_effort=*/true, kMs / 2);
  EXPECT_FALSE(result.killed);
  EXPECT_LE(result.worst_ns, 3 * kMs);
  EXPECT_GT(result.complete, 1000u);
}

// A dispatcher with one slice, whose worker always has work.
class WithDispatcher : public ::testing::Test {
 protected:
  void Start(const std::string& example, int32_t priority, int slices = 1) {
    now_ns = 1000 * kSecond;
    DispatcherOptions options;
    options.has_thread = false;
    options.clock = [] { return now_ns; };
    options.wall_clock_us = [] { return wall_us; };
    options.policy_failed = [this](const auto&, const std::string& why) { failed_ = why; };
    dispatcher_ = *Dispatcher::Create(std::move(options));
    dispatcher_->SetPolicy(Example(example));
    for (int i = 0; i < slices; ++i) {
      registrations_.push_back(*dispatcher_->Join({.gpus = {0},
                                                   .tenant = std::to_string(i),
                                                   .slice = std::to_string(i),
                                                   .priority = i == 0 ? priority : priority + 1,
                                                   .shares_context = shares_context_}));
      pages_.push_back(*DispatchPage::Attach(UniqueFd(dup(registrations_.back()->fd()))));
    }
  }

  // How much of the time the first slice had the engine.
  double Pass(int64_t ns) {
    const int64_t begin_ns = now_ns;
    int64_t had_ns = 0;
    for (int64_t next_ns = now_ns; now_ns < begin_ns + ns; now_ns += kMs / 10) {
      if (now_ns >= next_ns) {
        dispatcher_->SetPower(0, power_);
        next_ns += kSecond / 4;
      }
      dispatcher_->LookNow();
      for (size_t i = 0; i < pages_.size(); ++i) {
        EngineSlot& slot = pages_[i]->device(0)[EngineIndex(Engine::kCompute)];
        const bool runs = slot.grant().state() != Grant::State::kClosed;
        slot.worker.executors_waiting = runs ? 0 : 1;
        if (runs && slot.worker.executors_in_flight == 0) slot.worker.busy_since_ns = now_ns;
        slot.worker.executors_in_flight = runs ? 1 : 0;
        if (i == 0 && runs) had_ns += kMs / 10;
      }
    }
    return static_cast<double>(had_ns) / static_cast<double>(ns);
  }

  // True if the slices' kernels run at once, as those of the guarded tier do.
  bool shares_context_ = false;
  DevicePower power_ = {.power_mw = 300'000, .limit_mw = 700'000, .temperature_c = 50};
  std::string failed_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::vector<std::unique_ptr<DispatchRegistration>> registrations_;
  std::vector<std::unique_ptr<DispatchPage>> pages_;
};

TEST_F(WithDispatcher, PowerBudgetHoldsBestEffortWorkWhileTheDeviceDrawsTooMuch) {
  Start("power_budget", /*priority=*/0);
  EXPECT_GE(Pass(kSecond), 0.97);
  power_.power_mw = 680'000;
  EXPECT_LE(Pass(10 * kSecond), 0.02);
  power_ = {.power_mw = 300'000, .limit_mw = 700'000, .temperature_c = 90};
  EXPECT_LE(Pass(10 * kSecond), 0.02);
  power_.temperature_c = 60;
  EXPECT_GE(Pass(kSecond), 0.97);
  EXPECT_EQ(failed_, "");
}

TEST_F(WithDispatcher, PowerBudgetLeavesUrgentWorkAlone) {
  Start("power_budget", /*priority=*/1);
  power_.power_mw = 690'000;
  EXPECT_GE(Pass(kSecond), 0.97);
}

TEST_F(WithDispatcher, PowerBudgetLetsShortKernelsGoOn) {
  Start("power_budget", /*priority=*/0);
  power_.power_mw = 690'000;
  pages_[0]->kernel(0).Write({.name = 1, .expected_ns = 50'000});
  // It has a turn each time that it waits, and is held for a moment where nothing of it waits.
  EXPECT_GE(Pass(kSecond), 0.5);
  pages_[0]->kernel(0).Write({.name = 1, .expected_ns = 5 * kMs});
  Pass(kSecond);
  EXPECT_LE(Pass(10 * kSecond), 0.02);
}

TEST_F(WithDispatcher, ThermalGivesAHotDeviceRest) {
  Start("thermal", /*priority=*/1);
  EXPECT_GE(Pass(kSecond), 0.97);
  power_.temperature_c = 85;
  EXPECT_NEAR(Pass(10 * kSecond), 0.5, 0.05);
  power_.temperature_c = 120;
  EXPECT_NEAR(Pass(10 * kSecond), 0.1, 0.05);
  power_.temperature_c = 70;
  Pass(kSecond / 2);
  EXPECT_GE(Pass(kSecond), 0.97);
  EXPECT_EQ(failed_, "");
}

// A best-effort slice and an urgent one, which both always have kernels of 100 us.
class OrionWithDispatcher : public WithDispatcher {
 protected:
  OrionWithDispatcher() {
    shares_context_ = true;
    Start("orion", /*priority=*/0, /*slices=*/2);
  }

  // Returns for what part of the time the best-effort slice launches nothing. The urgent one's
  // kernels take so many thousandths of 100 us beside it.
  double Apart(int64_t ns, int64_t beside) {
    int64_t looks = 0, apart = 0;
    for (const int64_t end_ns = now_ns + ns; now_ns < end_ns; now_ns += kMs / 10, ++looks) {
      dispatcher_->LookNow();
      WorkerLine& effort = pages_[0]->device(0)[EngineIndex(Engine::kCompute)].worker;
      const bool runs = pages_[0]->device(0)[EngineIndex(Engine::kCompute)].grant().state() !=
                        Grant::State::kClosed;
      Work(runs, &effort);
      apart += runs ? 0 : 1;
      WorkerLine& urgent = pages_[1]->device(0)[EngineIndex(Engine::kCompute)].worker;
      done_ += runs ? 1e3 / static_cast<double>(beside) : 1;
      const auto complete = static_cast<uint64_t>(done_);
      done_ -= static_cast<double>(complete);
      Work(true, &urgent);
      urgent.commands += complete;
      effort.commands += runs ? 1 : 0;
    }
    return static_cast<double>(apart) / static_cast<double>(looks);
  }

 private:
  static void Work(bool runs, WorkerLine* line) {
    if (runs && line->executors_in_flight == 0) line->busy_since_ns = now_ns;
    line->executors_waiting = runs ? 0 : 1;
    line->executors_in_flight = runs ? 1 : 0;
  }

  double done_ = 0;
};

TEST_F(OrionWithDispatcher, WhatSlowsTheUrgentOneDownIsKeptApart) {
  Apart(kSecond, 1800);
  EXPECT_GE(Apart(20 * kSecond, 1800), 0.9);
  EXPECT_EQ(failed_, "");
}

TEST_F(OrionWithDispatcher, WhatDoesNotGoesOnBesideIt) {
  Apart(kSecond, 1000);
  EXPECT_LE(Apart(20 * kSecond, 1000), 0.1);
  EXPECT_EQ(failed_, "");
}

TEST_F(WithDispatcher, DayAndNightGoesByTheClock) {
  wall_us = int64_t{20'000 * 86'400 + 2 * 3'600} * 1'000'000;
  Start("day_and_night", /*priority=*/0, /*slices=*/2);
  EXPECT_NEAR(Pass(4 * kSecond), 0.5, 0.1);
  wall_us += int64_t{10 * 3'600} * 1'000'000;
  EXPECT_LE(Pass(4 * kSecond), 0.25);
  EXPECT_EQ(failed_, "");
}

}  // namespace
}  // namespace warpline::dispatch
