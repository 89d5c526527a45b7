// What a decision costs: bazel run --config=opt //policy/bpf/testing:decision_bench
#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "policy/bpf/contexts.h"
#include "policy/bpf/instruction.h"
#include "policy/bpf/interpreter.h"
#include "policy/bpf/map.h"
#include "policy/bpf/program.h"
#include "policy/bpf/testing/policy_host.h"
#include "policy/bpf/verify.h"
#include "policy/include/warpline_policy.h"

namespace warpline::policy::bpf {
namespace {

std::string ReadExample(const std::string& name) {
  std::ifstream in("policy/examples/" + name + ".bpf.o", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A decision of on_dispatch whose context is such that most of the policy runs.
void Decide(benchmark::State& state, const std::string& name) {
  testing::PolicyHost host;
  const auto program = Program::Load(ReadExample(name), host.Interface());
  if (!program.ok()) return state.SkipWithError(std::string(program.status().message()).c_str());
  warpline_on_dispatch context = {};
  context.tenant = 3;
  context.bw_share = 400;
  context.used_share = 200;
  context.day_second = 12 * 3600;
  context.power_mw = 690000;
  context.power_limit_mw = 700000;
  context.expected_ns = 1000000;
  if (Map* buckets = (*program)->FindMap("buckets"); buckets != nullptr) {
    (*program)->Run(kOnDispatch, &context, sizeof(context));  // The tenant's first.
    uint64_t tenant = 3;
    buckets->Find(&tenant)[0] = static_cast<uint64_t>(int64_t{-1} << 50);
  }
  while (state.KeepRunning()) {
    context.now_ns += 1000;
    benchmark::DoNotOptimize((*program)->Run(kOnDispatch, &context, sizeof(context)));
  }
}
BENCHMARK_CAPTURE(Decide, token_bucket, "token_bucket");
BENCHMARK_CAPTURE(Decide, latency_guard, "latency_guard");
BENCHMARK_CAPTURE(Decide, day_and_night, "day_and_night");
BENCHMARK_CAPTURE(Decide, power_budget, "power_budget");

// Arithmetic alone, of as many instructions as a decision has.
void Arithmetic(benchmark::State& state) {
  std::vector<Instruction> code = {{kLdx | kMemory | kWord8, 1 << 4, 0, 0}};
  while (code.size() < static_cast<size_t>(state.range(0)) - 1) {
    code.push_back({kAdd | kAlu64, static_cast<uint8_t>(code.size() % 2 == 0 ? 0 : 2), 0, 3});
    if (code.size() == 2) code.back() = {kMov | kAlu64, 2, 0, 3};
  }
  code.push_back({kExit, 0, 0, 0});
  const Executable executable(code, {}, {});
  const warpline_on_dispatch context = {};
  while (state.KeepRunning()) benchmark::DoNotOptimize(executable.Run(&context, nullptr));
}
BENCHMARK(Arithmetic)->Arg(3)->Arg(40)->Arg(400);

void Load(benchmark::State& state, const std::string& name) {
  testing::PolicyHost host;
  const std::string object = ReadExample(name);
  while (state.KeepRunning()) benchmark::DoNotOptimize(Program::Load(object, host.Interface()));
}
BENCHMARK_CAPTURE(Load, day_and_night, "day_and_night");
BENCHMARK_CAPTURE(Load, latency_guard, "latency_guard");

// Branches that all end at one place: as many states to join as there can be.
void VerifyBranches(benchmark::State& state) {
  std::vector<Instruction> code = {{kMov | kAlu64, 0, 0, 0}};
  const auto count = static_cast<size_t>(state.range(0));
  while (code.size() < count - 1) {
    code.push_back({kJeq | kJmp, 0, static_cast<int16_t>(count - 2 - code.size()), 7});
  }
  code.push_back({kExit, 0, 0, 0});
  while (state.KeepRunning()) benchmark::DoNotOptimize(Verify(code, WarplineHooks()[0], {}, {}));
}
BENCHMARK(VerifyBranches)->Arg(64)->Arg(512)->Arg(4096);

}  // namespace
}  // namespace warpline::policy::bpf

BENCHMARK_MAIN();
