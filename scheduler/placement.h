// Chooses the devices of the pool that a lease gets.
//
//   PlacementRequest request;
//   request.memory_bytes = uint64_t{8} << 30;
//   const auto placed = Place(devices, request, PlacementPolicy::kSpread);
//   if (!placed.ok()) return placed.status();
//   for (const size_t i : placed->devices) Lease(devices[i].uuid, placed->memory_bytes);
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
  // The memory on each device; 0 for a quarter of the device that is chosen, the least of the
  // quarters when there are several.
  uint64_t memory_bytes = 0;
  // The devices that it must be, all different and in this order; empty for any.
  std::vector<std::string> named = {};
  // The number of devices when none are named; at least 1.
  size_t count = 1;
};

struct Placement {
  std::vector<size_t> devices;  // Indices of devices, all of one server.
  uint64_t memory_bytes = 0;    // On each device.
};

// Chooses devices for `request`. Among equal devices the one with fewer leases is chosen, then the
// earlier one; among servers with enough devices for a lease of several, the one whose last choice
// is the best. The function is stateless. UNAVAILABLE when the pool has no device, NOT_FOUND when
// no server has all devices that are named, RESOURCE_EXHAUSTED, saying what is free, when the
// memory fits nowhere or fits on too few devices of every server.
absl::StatusOr<Placement> Place(const std::vector<DeviceState>& devices,
                                const PlacementRequest& request, PlacementPolicy policy);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_PLACEMENT_H_
