#include "server/device/cpu/context/cpu_libraries.h"

#include <memory>
#include <utility>
#include <vector>

#include "server/device/cpu/libraries/blas_calls.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/gate/library_gate.h"

namespace warpline::cpu {
namespace {

bool Has(const MemoryMap& memory, uint64_t address, uint64_t bytes, bool writes) {
  return writes ? memory.Contains(address, bytes, kWrites) : memory.Contains(address, bytes);
}

// Copies the addresses that the call has in device memory, and has it use the copies.
CudaResult CopyAddresses(CpuShared* shared,
                         absl::Span<const device::LibraryRequest::Addresses> arrays,
                         BlasCall* call) {
  for (const device::LibraryRequest::Addresses& array : arrays) {
    const auto* const from = reinterpret_cast<const uint64_t*>(call->values[array.slot]);
    std::vector<uint64_t>& copies = call->addresses.emplace_back(from, from + array.count);
    call->values[array.slot] = reinterpret_cast<uint64_t>(copies.data());
    if (array.bytes == 0) continue;
    for (const uint64_t address : copies) {
      if (address % array.align != 0) return CudaResult::kMisalignedAddress;
      const bool has = shared->gate().InArena(address, array.bytes) &&
                       Has(shared->memory(), address, array.bytes, array.writes);
      if (!has) return CudaResult::kIllegalAddress;
    }
  }
  return CudaResult::kSuccess;
}

}  // namespace

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
  BlasCall call = {request.function, request.modes, *std::move(values), {}};
  if (!blas->Has(call)) return CudaResult::kNotSupported;
  std::vector<device::LibraryRequest::Operand> operands(request.operands.begin(),
                                                        request.operands.end());
  std::vector<device::LibraryRequest::Addresses> addresses(request.addresses.begin(),
                                                           request.addresses.end());
  return shared_->streams().Submit(
      shared_->NumberOf(stream), StreamSet::When::kQueued,
      [shared = shared_, blas, call = std::move(call), operands = std::move(operands),
       addresses = std::move(addresses)]() mutable {
        const MemoryMap& memory = shared->memory();
        for (const auto& operand : operands) {
          const uint64_t address = call.values[operand.slot];
          if (operand.bytes == 0) continue;
          // Memory that was mapped may be gone.
          if (!Has(memory, address, operand.bytes, operand.writes)) {
            return CudaResult::kIllegalAddress;
          }
        }
        const CudaResult copied = CopyAddresses(shared, addresses, &call);
        if (copied != CudaResult::kSuccess) return copied;
        blas->Run(call);
        return CudaResult::kSuccess;
      });
}

// A BLAS has one algorithm for everything. Nothing of it can be configured.
CudaResult CpuLibraries::LibraryAlgorithms(uint32_t /*modes*/, absl::Span<const uint64_t> values,
                                           std::vector<LtAlgorithm>* algorithms) {
  const Blas* const blas = Blas::Get();
  if (blas == nullptr) return device::Lacks(device::Capability::kLibraries);
  if (!Blas::HasProduct(values)) return CudaResult::kNotSupported;
  LtAlgorithm algorithm = {/*workspace=*/0, /*waves=*/1, {}};
  algorithm.config[kLtConfigSplits] = 1;
  algorithms->assign(1, algorithm);
  return CudaResult::kSuccess;
}

CudaResult CpuLibraries::LibraryKinds(absl::Span<const uint64_t> values,
                                      std::vector<LtKind>* kinds) {
  if (Blas::Get() == nullptr) return device::Lacks(device::Capability::kLibraries);
  if (!Blas::HasProduct(values)) return CudaResult::kNotSupported;
  LtKind kind = {};
  for (const int yes : {kLtCanStride, kLtCanLeave, kLtCanTakeArrays, kLtLeastAlignmentOfA,
                        kLtLeastAlignmentOfB, kLtLeastAlignmentOfC, kLtLeastAlignmentOfD}) {
    kind.capabilities[yes] = 1;
  }
  kind.capabilities[kLtPointerModes] = 3;  // To the host and to the device.
  kind.capabilities[kLtEpilogues] = 1023;  // All.
  kind.known =
      ((uint32_t{1} << kLtCapabilities) - 1) &
      ~(uint32_t{1} << kLtTiles | uint32_t{1} << kLtStages | uint32_t{1} << kLtNumericalFlags);
  kinds->assign(1, kind);
  return CudaResult::kSuccess;
}

}  // namespace warpline::cpu
