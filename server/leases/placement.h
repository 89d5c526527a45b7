// Which devices a session or a lease gets.
#ifndef WARPLINE_SERVER_LEASES_PLACEMENT_H_
#define WARPLINE_SERVER_LEASES_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace warpline::server {

struct PlacementCandidate {
  std::string uuid;  // 16 bytes
  int sessions = 0;
};

// Names of devices, each an ordinal or "GPU-<uuid>" as nvidia-smi prints it.
using DeviceNames = std::vector<std::string>;

// The indices of the devices that `wanted` names; without a name, the one with the fewest sessions
// (the first of equals). As CUDA has it, a list ends before its first entry that names no device
// here: NOT_FOUND when that is its first, INVALID_ARGUMENT when that is neither an ordinal nor a
// UUID, or when a device stands in the list twice or more than kMaxSessionDevices do. Stateless.
absl::StatusOr<std::vector<size_t>> PlaceSession(const std::vector<PlacementCandidate>& devices,
                                                 const DeviceNames& wanted);

// Devices for a lease, as UUIDs. Without `wanted`, the `count` with the fewest sessions; otherwise
// all that it names, which must be there and be `count`, where that is not 0. Errors as above,
// NOT_FOUND when the server has not so many.
absl::StatusOr<DeviceNames> PlaceLease(const std::vector<PlacementCandidate>& devices,
                                       const DeviceNames& wanted, uint32_t count);

// Of a lease's devices, which are UUIDs, those that a session's `wanted` names: all where it is
// empty; ordinals count the lease's devices. Errors as PlaceSession().
absl::StatusOr<DeviceNames> ChooseOfLease(const DeviceNames& lease_devices,
                                          const DeviceNames& wanted);

// "GPU-6c3a5e0e-....", as nvidia-smi prints a device's UUID of 16 bytes.
std::string FormatDeviceUuid(const std::string& uuid);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_LEASES_PLACEMENT_H_
