// One small kernel per arithmetic instruction of PTX, with inputs full of edge cases.
//
// The same kernels run on any device. What NVIDIA hardware answers is kept as a hash per
// instruction in arithmetic_golden.txt; arithmetic_cases_main writes that file.
#ifndef WARPLINE_SERVER_DEVICE_CPU_TESTING_ARITHMETIC_CASES_H_
#define WARPLINE_SERVER_DEVICE_CPU_TESTING_ARITHMETIC_CASES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "server/device/device.h"

namespace warpline::cpu {

struct ArithmeticCase {
  std::string instruction;  // "add.sat.s32 %r0, %r1, %r2", unique
  // Letters as in AluRow::operands, of the result and of the sources.
  char result = 'i';
  std::string sources;
  bool approximate = false;  // Hardware and host need only agree roughly.
};

inline constexpr size_t kArithmeticThreads = 4096;

std::vector<ArithmeticCase> ArithmeticCases();

// The module that holds kernel k<i> for case i.
std::string ArithmeticModule(const std::vector<ArithmeticCase>& cases);

// Four words for each thread: the operands of `test`.
std::vector<uint64_t> ArithmeticInputs(const ArithmeticCase& test);

uint64_t HashResults(const std::vector<uint64_t>& results);

// Loads the module once and runs cases. Owns a context with some memory.
class ArithmeticRunner {
 public:
  static absl::StatusOr<std::unique_ptr<ArithmeticRunner>> Create(
      device::Backend* backend, const std::vector<ArithmeticCase>& cases);
  ~ArithmeticRunner();

  // One word per thread.
  absl::StatusOr<std::vector<uint64_t>> Run(size_t index);

 private:
  ArithmeticRunner() = default;

  std::vector<ArithmeticCase> cases_;
  std::unique_ptr<device::Context> context_;
  std::unique_ptr<device::ChunkSource> chunks_;
  UniqueFd chunk_;
  device::ModuleId module_{};
  uint64_t memory_ = 0;
  void* staging_ = nullptr;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_TESTING_ARITHMETIC_CASES_H_
