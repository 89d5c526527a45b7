// Chooses the devices that a session or a lease gets.
#ifndef WARPLINE_SERVER_GPU_SERVER_LEASES_PLACEMENT_H_
#define WARPLINE_SERVER_GPU_SERVER_LEASES_PLACEMENT_H_

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

// Names of devices, each an ordinal, or "GPU-<uuid>" as nvidia-smi prints it or the beginning of
// that (lease/device_match.h).
using DeviceNames = std::vector<std::string>;

// Returns the indices of the devices that `wanted` names; without a name, the device with the
// fewest sessions (the first of equals). As in CUDA, a list ends before its first entry that names
// no device here. When that is the very first entry, the error is NOT_FOUND, or INVALID_ARGUMENT
// when the entry is neither an ordinal nor a UUID. INVALID_ARGUMENT also when a device is named
// twice or more than kMaxSessionDevices are named. The function is stateless.
absl::StatusOr<std::vector<size_t>> PlaceSession(const std::vector<PlacementCandidate>& devices,
                                                 const DeviceNames& wanted);

// Chooses devices for a lease, as UUIDs. Without `wanted` it takes the `count` with the fewest
// sessions. Otherwise it takes all that `wanted` names, which must exist and be `count` in number,
// unless that is 0. The errors are those of PlaceSession(), and NOT_FOUND when the server has too
// few.
absl::StatusOr<DeviceNames> PlaceLease(const std::vector<PlacementCandidate>& devices,
                                       const DeviceNames& wanted, uint32_t count);

// Chooses those of a lease's devices, which are UUIDs, that a session's `wanted` names: all when it
// is empty. Ordinals count the lease's devices. The errors are those of PlaceSession().
absl::StatusOr<DeviceNames> ChooseOfLease(const DeviceNames& lease_devices,
                                          const DeviceNames& wanted);

// Formats a device's UUID of 16 bytes as nvidia-smi prints it: "GPU-6c3a5e0e-....".
std::string FormatDeviceUuid(const std::string& uuid);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_LEASES_PLACEMENT_H_
