// Chooses which leases would have to end so that a request fits: as kube-scheduler's preemption
// does, those of the lowest rank, and none without need.
#ifndef WARPLINE_SCHEDULER_PLACEMENT_EVICTION_H_
#define WARPLINE_SCHEDULER_PLACEMENT_EVICTION_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "scheduler/placement/fit.h"
#include "scheduler/placement/pool.h"

namespace warpline::placement {

// What goes before what: first what a tenant can count on, then the priority.
using Rank = std::pair<bool, uint32_t>;

struct Eviction {
  Site site;  // Where the request fits once they have ended.
  // No part of them would be enough. The lowest rank first, and of one rank the latest first.
  std::vector<std::string> victims;
};

// The eviction with the lowest of highest ranks, then the fewest victims, then the latest. Only
// leases of a rank below `rank` are victims. Nothing when that does not help. It looks at every
// device that is not set aside.
std::optional<Eviction> FindEviction(const Pool& pool, const Want& want, Order order, Rank rank,
                                     absl::FunctionRef<Rank(const Allocation&)> rank_of);

}  // namespace warpline::placement

#endif  // WARPLINE_SCHEDULER_PLACEMENT_EVICTION_H_
