// Measures the gate's cost to an executor for each command, in nanoseconds: bazel run -c opt
// //server/hostlink/dispatch_gate:executor_turns_benchmark
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>

#include "server/hostlink/dispatch_gate/executor_turns.h"

namespace warpline::dispatch {
namespace {

// Commands between two marks, as executors have them.
constexpr int kBurst = 64;
constexpr int kBursts = 200'000;

double NsEach(const SessionGates* gates) {
  ExecutorTurns turns(gates, 0);
  uint64_t ticket = 0;
  uint64_t refused = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int burst = 0; burst < kBursts; ++burst) {
    for (int i = 0; i < kBurst; ++i) {
      if (!turns.MayIssue(Engine::kCompute)) ++refused;
      turns.OnIssued(Engine::kCompute, ++ticket, 0);
      asm volatile("" ::: "memory");
    }
    turns.OnRetired(ticket);
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  if (refused > 0) std::printf("(%llu were refused) ", static_cast<unsigned long long>(refused));
  return took.count() / kBursts / kBurst;
}

int Main() {
  auto page = DispatchPage::Create();
  if (!page.ok()) return 1;
  DispatchPage* const slots = page->get();
  const SessionGates gates(*std::move(page));
  std::printf("without dispatch      %6.1f ns a command\n", NsEach(nullptr));
  std::printf("alone on the device   %6.1f ns\n", NsEach(&gates));
  slots->device(0)[0].SetGrant(Grant::Shared());
  std::printf("beside idle sessions  %6.1f ns\n", NsEach(&gates));
  slots->device(0)[0].SetGrant(Grant::Turn(MonotonicNs() + 3'600'000'000'000));
  std::printf("in a turn             %6.1f ns\n", NsEach(&gates));
  return 0;
}

}  // namespace
}  // namespace warpline::dispatch

int main() { return warpline::dispatch::Main(); }
