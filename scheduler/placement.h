// Which device of the pool a lease gets.
#ifndef WARPLINE_SCHEDULER_PLACEMENT_H_
#define WARPLINE_SCHEDULER_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace warpline::scheduler {

enum class PlacementPolicy {
  kSpread,  // The device with the most free memory.
  kPack,    // The device with the least free memory that is enough.
};

// A device of a server that takes leases.
struct DeviceState {
  std::string server;
  std::string uuid;  // "GPU-<uuid>"
  uint64_t capacity_bytes = 0;
  uint64_t leased_bytes = 0;
  int leases = 0;
};

struct PlacementRequest {
  uint64_t memory_bytes = 0;  // 0 for a quarter of whatever device it becomes.
  std::string device;         // Empty for any.
};

struct Placement {
  size_t device = 0;  // The index.
  uint64_t memory_bytes = 0;
};

// Stateless. Of equal devices the one with fewer leases, then the earlier one. UNAVAILABLE when the
// pool has no device, NOT_FOUND when it has none of that name, RESOURCE_EXHAUSTED, saying what is
// free, when the memory fits nowhere.
absl::StatusOr<Placement> Place(const std::vector<DeviceState>& devices,
                                const PlacementRequest& request, PlacementPolicy policy);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_PLACEMENT_H_
