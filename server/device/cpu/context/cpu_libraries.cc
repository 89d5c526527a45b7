#include "server/device/cpu/context/cpu_libraries.h"

#include <memory>
#include <utility>
#include <vector>

#include "server/device/cpu/libraries/blas_calls.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/gate/library_gate.h"

namespace warpline::cpu {

CudaResult CpuLibraries::LibraryVersion(uint32_t* version) {
  const Blas* const blas = Blas::Get();
  if (blas == nullptr) return device::Lacks(device::Capability::kLibraries);
  *version = blas->version();
  return CudaResult::kSuccess;
}

// The rates are those of one thread of an old processor.
uint64_t CpuLibraries::LibraryMicroseconds(const device::LibraryCost& cost) {
  constexpr uint64_t kOperations = 10'000, kBytes = 2'000;  // In a microsecond.
  return cost.work / kOperations + cost.bytes / kBytes + cost.batches;
}

CudaResult CpuLibraries::CallLibrary(const device::LibraryRequest& request, device::StreamId stream,
                                     uint32_t* launches) {
  *launches = 1;
  if (shared_->streams().error() != CudaResult::kSuccess) return shared_->streams().error();
  const Blas* const blas = Blas::Get();
  if (blas == nullptr) return device::Lacks(device::Capability::kLibraries);
  auto values = device::AdmitLibraryCall(shared_->gate(), request, /*unused=*/0);
  if (!values) return CudaResult::kInvalidValue;
  BlasCall call = {request.function, request.modes, *std::move(values)};
  if (!blas->Has(call)) return CudaResult::kNotSupported;
  std::vector<device::LibraryRequest::Operand> operands(request.operands.begin(),
                                                        request.operands.end());
  return shared_->streams().Submit(
      shared_->NumberOf(stream), StreamSet::When::kQueued,
      [memory = &shared_->memory(), blas, call = std::move(call), operands = std::move(operands)] {
        for (const auto& operand : operands) {
          const uint64_t address = call.values[operand.slot];
          if (operand.bytes == 0) continue;
          // Memory that was mapped may be gone.
          if (!(operand.writes ? memory->Contains(address, operand.bytes, kWrites)
                               : memory->Contains(address, operand.bytes))) {
            return CudaResult::kIllegalAddress;
          }
        }
        blas->Run(call);
        return CudaResult::kSuccess;
      });
}

}  // namespace warpline::cpu
