// The CUlimits of the CPU device.
#include <algorithm>

#include "server/device/cpu/context/cpu_launches.h"
#include "server/device/cpu/machine/device_limits.h"

namespace warpline::cpu {
namespace {

// Numbers of CUlimit.
enum Limit {
  kStackSize = 0,
  kPrintfFifoSize = 1,
  kMallocHeapSize = 2,
  kPendingLaunchCount = 4,
  kMaxL2FetchGranularity = 5,
  kPersistingL2CacheSize = 6,
};

constexpr uint64_t kMaxL2Fetch = 128;

}  // namespace

CudaResult CpuLaunches::GetLimit(int limit, uint64_t* value) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  switch (limit) {
    case kStackSize:
      *value = stack_bytes_.load();
      return CudaResult::kSuccess;
    case kPrintfFifoSize:
      *value = output_.capacity();
      return CudaResult::kSuccess;
    case kMallocHeapSize:
      *value = heap_.size();
      return CudaResult::kSuccess;
    case kPendingLaunchCount:
      *value = pending_launches_.load();
      return CudaResult::kSuccess;
    case kMaxL2FetchGranularity:
      *value = l2_fetch_bytes_.load();
      return CudaResult::kSuccess;
    case kPersistingL2CacheSize:
      *value = 0;
      return CudaResult::kSuccess;
    default:
      return CudaResult::kUnsupportedLimit;
  }
}

CudaResult CpuLaunches::SetLimit(int limit, uint64_t value) {
  if (streams_.error() != CudaResult::kSuccess) return streams_.error();
  if (shared_->is_shared()) {
    // As on a GPU, where a limit is that of all who share the device.
    uint64_t now = 0;
    const CudaResult found = GetLimit(limit, &now);
    if (found != CudaResult::kSuccess) return found;
    return value <= now ? CudaResult::kSuccess : CudaResult::kNotSupported;
  }
  switch (limit) {
    case kStackSize:
      if (value > kMaxLocalStack) return CudaResult::kInvalidValue;
      stack_bytes_ = (std::max<uint64_t>(value, 1) + 15) / 16 * 16;
      return CudaResult::kSuccess;
    case kPrintfFifoSize:
      if (value > PrintBuffer::kMaxCapacity) return CudaResult::kInvalidValue;
      output_.set_capacity(value);
      return CudaResult::kSuccess;
    case kMallocHeapSize:
      return heap_.Resize(value);
    // This device does not have these; the values are kept for programs that ask.
    case kPendingLaunchCount:
      pending_launches_ = value;
      return CudaResult::kSuccess;
    case kMaxL2FetchGranularity:
      if (value > kMaxL2Fetch) return CudaResult::kInvalidValue;
      l2_fetch_bytes_ = value;
      return CudaResult::kSuccess;
    default:
      return CudaResult::kUnsupportedLimit;
  }
}

}  // namespace warpline::cpu
