#include "server/worker/lanes/device_set.h"

#include <utility>

namespace warpline::worker {
namespace {

// The CUlimits that cost memory.
constexpr int kStackSize = 0;
constexpr int kPrintfFifoSize = 1;
constexpr int kMallocHeapSize = 2;
constexpr int kPendingLaunches = 4;
constexpr int kL2FetchGranularity = 5;
constexpr int kPersistingL2Size = 6;

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
    case kStackSize:
      return devices_[device].max_stack_bytes;
    case kPrintfFifoSize:
      return limits_.max_printf_bytes;
    case kMallocHeapSize:
      return limits_.max_heap_bytes;
    case kPendingLaunches:
      return kMostPendingLaunches;
    case kL2FetchGranularity:
    case kPersistingL2Size:
      return ~uint64_t{0};
    default:
      return 0;
  }
}

}  // namespace warpline::worker
