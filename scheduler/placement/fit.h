// Chooses the devices of one server for a request.
//
// Fractions of devices go to the device that has the least left (pack) or the most (spread).
// Several devices of one server are of one NVLink group where one has enough of them, else of one
// NUMA node, and small requests take from the smallest group that is enough, so that large ones
// stay whole.
#ifndef WARPLINE_SCHEDULER_PLACEMENT_FIT_H_
#define WARPLINE_SCHEDULER_PLACEMENT_FIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "scheduler/placement/pool.h"

namespace warpline::placement {

enum class Order {
  kSpread,  // The devices with the most free memory.
  kPack,    // The devices with the least free memory that is enough.
};

// What a lease is to have.
struct Want {
  uint64_t memory_bytes = 0;  // On each device; 0 for a quarter of it, the least of the quarters.
  uint32_t sm_percent = 0;    // Set aside for it; 0 for none.
  uint32_t time_milli = 0;    // Likewise, of the device's time, in thousandths.
  uint32_t weight = 1;
  uint32_t gpus = 1;  // Of one server.
  std::vector<std::string> named =
      {};  // The devices that it must be, in this order; empty for any.
};

struct Site {
  uint32_t server = 0;
  std::vector<uint32_t> devices = {};  // Positions.
  uint64_t memory_bytes = 0;           // On each.
};

// The memory that a device would give, a multiple of kMemoryUnit; 0 when it cannot.
uint64_t MemoryOn(const DeviceState& device, const Want& want);
// Whether the device has it free now, whoever it is set aside for.
bool Fits(const DeviceState& device, const Want& want);
// Whether the device could, if nothing was leased.
bool CouldFit(const DeviceState& device, const Want& want);

// A site on usable servers, on devices that are not set aside; nothing when there is none.
std::optional<Site> FindSite(const Pool& pool, const Want& want, Order order);
// Decides whether a device of a server may be taken.
using MayTake = absl::FunctionRef<bool(const ServerState&, const DeviceState&)>;
// Returns a site on usable servers, on devices that `may_take` takes; nothing when there is none,
// or when devices are named. It looks at each server.
std::optional<Site> FindSiteWhere(const Pool& pool, const Want& want, Order order,
                                  MayTake may_take);
// The best `want.gpus` of the devices at `positions` of a server, in the order of positions.
std::vector<uint32_t> PickDevices(const ServerState& server, std::vector<uint32_t> positions,
                                  uint32_t gpus, Order order);
Site SiteOf(const Pool& pool, const Want& want, uint32_t server, std::vector<uint32_t> devices);

// False when so many sites at once surely do not fit; much quicker than finding them.
bool MayFit(const Pool& pool, const Want& want, uint32_t sites);

// Why FindSite() found nothing: UNAVAILABLE when no server is usable, NOT_FOUND when no usable
// server has the devices that are named, RESOURCE_EXHAUSTED, with what is free, otherwise.
absl::Status WhyNot(const Pool& pool, const Want& want);
// Whether some server that is known, usable or not, could have it when all its leases have ended.
bool CouldEverFit(const Pool& pool, const Want& want);

}  // namespace warpline::placement

#endif  // WARPLINE_SCHEDULER_PLACEMENT_FIT_H_
