// Operands for arithmetic cases, and a digest of results.
#ifndef WARPLINE_SERVER_DEVICE_CPU_TESTING_ARITHMETIC_INPUTS_H_
#define WARPLINE_SERVER_DEVICE_CPU_TESTING_ARITHMETIC_INPUTS_H_

#include <cstdint>
#include <vector>

#include "server/device/cpu/testing/arithmetic_cases.h"

namespace warpline::cpu {

inline constexpr size_t kArithmeticThreads = 4096;

// Four words for each thread: every pair of edge cases, then random values. They are the same on
// every run.
std::vector<uint64_t> ArithmeticInputs(const ArithmeticCase& test);

uint64_t HashResults(const std::vector<uint64_t>& results);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_TESTING_ARITHMETIC_INPUTS_H_
