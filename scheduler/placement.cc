#include "scheduler/placement.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::scheduler {
namespace {

constexpr uint64_t kDefaultShare = 4;
// Leases are whole chunks, so that no quota ends in a piece that nobody can use.
constexpr uint64_t kUnit = 2ull << 20;

uint64_t FreeBytes(const DeviceState& device) {
  return device.capacity_bytes - std::min(device.capacity_bytes, device.leased_bytes);
}

}  // namespace

absl::StatusOr<Placement> Place(const std::vector<DeviceState>& devices,
                                const PlacementRequest& request, PlacementPolicy policy) {
  if (devices.empty()) return absl::UnavailableError("no server with a device is up");
  std::optional<Placement> best;
  std::pair<uint64_t, int> best_rank;
  uint64_t most_free = 0;
  bool named = false;
  for (size_t i = 0; i < devices.size(); ++i) {
    const DeviceState& device = devices[i];
    if (!request.device.empty() && request.device != device.uuid) continue;
    named = true;
    const uint64_t free = FreeBytes(device);
    most_free = std::max(most_free, free);
    uint64_t want =
        request.memory_bytes != 0 ? request.memory_bytes : device.capacity_bytes / kDefaultShare;
    want -= want % kUnit;
    if (want == 0 || want > free) continue;
    const std::pair<uint64_t, int> rank(policy == PlacementPolicy::kPack ? free : ~free,
                                        device.leases);
    if (best.has_value() && best_rank <= rank) continue;
    best = Placement{i, want};
    best_rank = rank;
  }
  if (best.has_value()) return *best;
  if (!named) return absl::NotFoundError("no server that is up has the device");
  return absl::ResourceExhaustedError(
      absl::StrCat("no capacity: ",
                   request.memory_bytes == 0 ? "a quarter of a device"
                                             : absl::StrCat(request.memory_bytes >> 20, " MiB"),
                   " wanted, the device with the most free memory has ", most_free >> 20, " MiB"));
}

}  // namespace warpline::scheduler
