// Which devices of the pool a lease gets.
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
  // Of each device; 0 for a quarter of whatever device it becomes, the least of several.
  uint64_t memory_bytes = 0;
  // Those that it must be, in this order, different ones; empty for any.
  std::vector<std::string> named = {};
  // How many, where none are named; at least 1.
  size_t count = 1;
};

struct Placement {
  std::vector<size_t> devices;  // The indices, all of one server.
  uint64_t memory_bytes = 0;    // Of each.
};

// Stateless. Of equal devices the one with fewer leases, then the earlier one; of servers with
// enough devices for a lease of several, the one whose last choice is the best. UNAVAILABLE when
// the pool has no device, NOT_FOUND when no server has all that are named, RESOURCE_EXHAUSTED,
// saying what is free, when the memory fits nowhere or no server has so many devices that it fits
// on.
absl::StatusOr<Placement> Place(const std::vector<DeviceState>& devices,
                                const PlacementRequest& request, PlacementPolicy policy);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_PLACEMENT_H_
