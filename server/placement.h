// Which device a session gets when it does not say.
#ifndef WARPLINE_SERVER_PLACEMENT_H_
#define WARPLINE_SERVER_PLACEMENT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace warpline {

struct PlacementCandidate {
  std::string uuid;  // 16 bytes
  int sessions = 0;
};

// The index of the device that `wanted` names: empty for the one with the fewest sessions (the
// first of equals), an ordinal, or "GPU-<uuid>" as nvidia-smi prints it. NOT_FOUND when there is no
// such device, INVALID_ARGUMENT when `wanted` is none of these. Stateless.
absl::StatusOr<size_t> PlaceSession(const std::vector<PlacementCandidate>& devices,
                                    const std::string& wanted);

// "GPU-6c3a5e0e-....", as nvidia-smi prints a device's UUID of 16 bytes.
std::string FormatDeviceUuid(const std::string& uuid);

}  // namespace warpline

#endif  // WARPLINE_SERVER_PLACEMENT_H_
