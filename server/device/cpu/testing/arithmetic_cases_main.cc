// Prints what a device answers to the arithmetic cases, in the form of arithmetic_golden.txt:
//   arithmetic_cases_main cuda > server/device/cpu/testing/arithmetic_golden.txt
#include <cinttypes>
#include <cstdio>

#include "server/device/cpu/testing/arithmetic_cases.h"
#include "server/device/cpu/testing/arithmetic_inputs.h"
#include "server/device/cpu/testing/arithmetic_runner.h"
#include "server/device/device.h"

int main(int argc, char** argv) {
  namespace cpu = warpline::cpu;
  auto backend = warpline::device::OpenBackend(argc > 1 ? argv[1] : "auto");
  if (!backend.ok()) {
    std::fprintf(stderr, "%s\n", backend.status().ToString().c_str());
    return 1;
  }
  const auto cases = cpu::ArithmeticCases();
  auto runner = cpu::ArithmeticRunner::Create(backend->get(), cases);
  if (!runner.ok()) {
    std::fprintf(stderr, "%s\n", runner.status().ToString().c_str());
    return 1;
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].approximate) continue;
    const auto results = (*runner)->Run(i);
    if (!results.ok()) {
      std::fprintf(stderr, "%s\n", results.status().ToString().c_str());
      return 1;
    }
    std::printf("%016" PRIx64 " %s\n", cpu::HashResults(*results), cases[i].instruction.c_str());
  }
  return 0;
}
