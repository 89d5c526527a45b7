// Runs arithmetic cases on a device.
#ifndef WARPLINE_SERVER_DEVICE_CPU_TESTING_ARITHMETIC_RUNNER_H_
#define WARPLINE_SERVER_DEVICE_CPU_TESTING_ARITHMETIC_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "server/device/cpu/testing/arithmetic_cases.h"
#include "server/device/device.h"

namespace warpline::cpu {

// Returns a module that holds kernel k<i> for case i.
std::string ArithmeticModule(const std::vector<ArithmeticCase>& cases);

// Loads the module once and runs cases. Owns a context with some memory. Thread-compatible.
class ArithmeticRunner {
 public:
  static absl::StatusOr<std::unique_ptr<ArithmeticRunner>> Create(
      device::Backend* backend, const std::vector<ArithmeticCase>& cases);
  ~ArithmeticRunner();

  // Returns one word for each thread.
  absl::StatusOr<std::vector<uint64_t>> Run(size_t index);

 private:
  ArithmeticRunner() = default;

  std::vector<ArithmeticCase> cases_;
  std::unique_ptr<device::ChunkSource> chunks_;
  std::unique_ptr<device::Context> context_;
  UniqueFd chunk_;
  device::ModuleId module_{};
  uint64_t memory_ = 0;
  void* staging_ = nullptr;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_TESTING_ARITHMETIC_RUNNER_H_
