#include "server/worker/executors/launch_attributes.h"

#include <cstring>

#include "proto/wire.h"

namespace warpline::worker {
namespace {

struct WireAttribute {
  uint32_t id;
  uint32_t reserved;
  std::byte value[64];
};
static_assert(sizeof(WireAttribute) == 72);

// The forwarded attributes by CUlaunchAttributeID: access policy window, cluster dimension and
// scheduling policy, programmatic stream serialization, priority, memory synchronization domain and
// its map, preferred cluster dimension, preferred shared memory carveout, NVLink utilization.
constexpr uint32_t kForwarded = 1u << 1 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 8 | 1u << 9 |
                                1u << 10 | 1u << 11 | 1u << 14 | 1u << 16;

// The attributes that the client sets on streams: access policy window, synchronization policy,
// priority, memory synchronization domain and its map.
constexpr uint32_t kOfStreams = 1u << 1 | 1u << 3 | 1u << 8 | 1u << 9 | 1u << 10;

}  // namespace

bool IsStreamAttribute(uint32_t id) { return id < 32 && (kOfStreams >> id & 1) != 0; }

bool TakeAttributes(std::string_view* tail, uint32_t count, device::LaunchConfig* config) {
  if (count > tail->size() / sizeof(WireAttribute)) return false;
  for (uint32_t i = 0; i < count; ++i) {
    WireAttribute wire;
    if (!TakeStruct(tail, &wire)) return false;
    if (wire.id >= 32 || (kForwarded >> wire.id & 1) == 0) return false;
    device::LaunchAttribute& attribute = config->attributes.emplace_back();
    attribute.id = wire.id;
    std::memcpy(attribute.value.data(), wire.value, sizeof(wire.value));
  }
  return true;
}

}  // namespace warpline::worker
