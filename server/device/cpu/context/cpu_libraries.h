// The libraries of the CPU device: a BLAS of the system's executes the calls of cuBLAS.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_LIBRARIES_H_
#define WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_LIBRARIES_H_

#include <cstdint>

#include "common/cuda/cuda_result.h"
#include "server/device/cpu/context/cpu_shared.h"
#include "server/device/facets/libraries.h"

namespace warpline::cpu {

// Thread-safe.
class CpuLibraries : public virtual device::Libraries {
 public:
  explicit CpuLibraries(CpuShared* shared) : shared_(shared) {}

  CudaResult LibraryVersion(uint32_t* version) override;
  uint64_t LibraryMicroseconds(const device::LibraryCost& cost) override;
  CudaResult CallLibrary(const device::LibraryRequest& request, device::StreamId stream,
                         uint32_t* launches) override;
  CudaResult LibraryAlgorithms(uint32_t modes, absl::Span<const uint64_t> values,
                               std::vector<LtAlgorithm>* algorithms) override;
  CudaResult LibraryKinds(absl::Span<const uint64_t> values, std::vector<LtKind>* kinds) override;
  // A fault is the error of the operation that has it.
  CudaResult LibraryFault() override { return CudaResult::kSuccess; }

 private:
  CpuShared* const shared_;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_LIBRARIES_H_
