// CUfunction_attribute and occupancy of kernels of the CPU device.
#include <algorithm>

#include "server/device/cpu/context/cpu_launches.h"
#include "server/device/cpu/machine/device_limits.h"

namespace warpline::cpu {
namespace {

// Numbers of CUfunction_attribute.
enum KernelAttribute {
  kMaxThreads = 0,
  kSharedBytes = 1,
  kConstantBytes = 2,
  kLocalBytes = 3,
  kRegisters = 4,
  kPtxVersion = 5,
  kBinaryVersion = 6,
  kCacheModeCa = 7,
  kMaxDynamicShared = 8,
  kPreferredCarveout = 9,
  kClusterFirst = 10,  // No cluster attribute is set, and none can be.
  kClusterLast = 15,
};

}  // namespace

CudaResult CpuLaunches::GetKernelAttribute(device::KernelId kernel, int attribute, int* value) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  const KernelHandle handle = shared_->modules().Find(kernel);
  if (handle.kernel == nullptr) return CudaResult::kInvalidHandle;
  const Kernel& k = *handle.kernel;
  switch (attribute) {
    case kMaxThreads:
      *value = static_cast<int>(k.max_threads);
      break;
    case kSharedBytes:
      *value = static_cast<int>(k.code.static_shared_bytes);
      break;
    case kConstantBytes:
      *value = static_cast<int>(k.const_bytes);
      break;
    case kLocalBytes:
      *value = static_cast<int>(k.code.local_bytes);
      break;
    case kRegisters:
      *value = static_cast<int>(k.code.register_count);
      break;
    case kPtxVersion:
      *value = k.ptx_version;
      break;
    case kBinaryVersion:
      *value = static_cast<int>(kComputeCapability);
      break;
    case kCacheModeCa:
      *value = 0;
      break;
    case kMaxDynamicShared:
      *value = static_cast<int>(k.max_dynamic_shared_bytes.load());
      break;
    case kPreferredCarveout:
      *value = -1;
      break;
    default:
      if (attribute < kClusterFirst || attribute > kClusterLast) return CudaResult::kInvalidValue;
      *value = 0;
      break;
  }
  return CudaResult::kSuccess;
}

CudaResult CpuLaunches::SetKernelAttribute(device::KernelId kernel, int attribute, int value) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  const KernelHandle handle = shared_->modules().Find(kernel);
  if (handle.kernel == nullptr) return CudaResult::kInvalidHandle;
  Kernel& k = *handle.kernel;
  if (attribute == kMaxDynamicShared) {
    if (value < 0 ||
        static_cast<uint64_t>(value) + k.code.static_shared_bytes > kSharedPerBlockOptIn) {
      return CudaResult::kInvalidValue;
    }
    k.max_dynamic_shared_bytes = static_cast<uint32_t>(value);
    return CudaResult::kSuccess;
  }
  // A hint that has no effect here.
  if (attribute == kPreferredCarveout) {
    return value >= -1 && value <= 100 ? CudaResult::kSuccess : CudaResult::kInvalidValue;
  }
  return CudaResult::kInvalidValue;
}

CudaResult CpuLaunches::MaxActiveBlocks(device::KernelId kernel, int block_threads,
                                        size_t dynamic_shared_bytes, uint32_t, int* blocks) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  const KernelHandle handle = shared_->modules().Find(kernel);
  if (handle.kernel == nullptr) return CudaResult::kInvalidHandle;
  if (block_threads <= 0) return CudaResult::kInvalidValue;
  const Kernel& k = *handle.kernel;
  const auto threads = static_cast<uint64_t>(block_threads);
  const uint64_t shared = k.code.static_shared_bytes + uint64_t{dynamic_shared_bytes};
  if (threads > k.max_threads || shared > kSharedPerBlockOptIn) {
    *blocks = 0;
    return CudaResult::kSuccess;
  }
  *blocks = static_cast<int>(ResidentBlocks(k, threads, dynamic_shared_bytes));
  return CudaResult::kSuccess;
}

uint64_t CpuLaunches::ResidentBlocks(const Kernel& kernel, uint64_t threads,
                                     uint64_t dynamic_shared) {
  const uint64_t shared = kernel.code.static_shared_bytes + dynamic_shared;
  const uint64_t warps = (threads + 31) / 32;
  uint64_t fit =
      std::min<uint64_t>(kMaxThreadsPerMultiprocessor / 32 / warps, kMaxBlocksPerMultiprocessor);
  if (shared > 0) fit = std::min(fit, kSharedPerMultiprocessor / shared);
  return fit;
}

}  // namespace warpline::cpu
