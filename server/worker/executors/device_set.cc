#include "server/worker/executors/device_set.h"

#include <utility>

#include "common/cuda/cuda_numbers.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kMostPendingLaunches = 64u << 10;

}  // namespace

DeviceSet::DeviceSet(std::vector<SessionDevice> devices, const SessionLimits& limits)
    : devices_(std::move(devices)), limits_(limits) {
  for (const SessionDevice& device : devices_) {
    events_.push_back(std::make_unique<EventPool>(device.context));
  }
}

uint64_t DeviceSet::MostOfLimit(uint32_t device, int limit) const {
  switch (limit) {
    case kLimitStackSize:
      return devices_[device].max_stack_bytes;
    case kLimitPrintfFifoSize:
      return limits_.max_printf_bytes;
    case kLimitMallocHeapSize:
      return limits_.max_heap_bytes;
    case kLimitPendingLaunches:
      return kMostPendingLaunches;
    case kLimitL2FetchGranularity:
    case kLimitPersistingL2Size:
      return ~uint64_t{0};
    default:
      return 0;
  }
}

uint64_t DeviceSet::BytesOfLimit(uint32_t device, int limit, uint64_t value) const {
  switch (limit) {
    case kLimitStackSize:
      return value * devices_[device].max_threads;
    case kLimitPrintfFifoSize:
    case kLimitMallocHeapSize:
      return value;
    default:
      return 0;
  }
}

}  // namespace warpline::worker
