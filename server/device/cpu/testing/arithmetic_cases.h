// The arithmetic instructions of PTX, each as a case that is run with inputs full of edge cases.
//
// The same kernels run on any device. A hash of what NVIDIA hardware answers to each instruction is
// kept in arithmetic_golden.txt; arithmetic_cases_main writes that file.
#ifndef WARPLINE_SERVER_DEVICE_CPU_TESTING_ARITHMETIC_CASES_H_
#define WARPLINE_SERVER_DEVICE_CPU_TESTING_ARITHMETIC_CASES_H_

#include <cstddef>
#include <string>
#include <vector>

namespace warpline::cpu {

struct ArithmeticCase {
  std::string instruction;  // "add.sat.s32 %r0, %r1, %r2", unique
  // Letters of AluRow::operands, for the result and for the sources.
  char result = 'i';
  std::string sources;
  bool approximate = false;  // Hardware and host need only agree roughly.
};

std::vector<ArithmeticCase> ArithmeticCases();

// The register that holds operand `index` of the given kind; 0 is the result.
std::string ArithmeticRegister(char code, size_t index);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_TESTING_ARITHMETIC_CASES_H_
