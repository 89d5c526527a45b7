#include "server/worker/order/stall_clock.h"

#include <algorithm>
#include <utility>

namespace warpline::worker {

absl::Time StallClock::Look(absl::Span<const LaneWork> lanes, absl::Time now) {
  absl::Time since = absl::InfiniteFuture();
  absl::flat_hash_map<const void*, Seen> under_way;
  for (const LaneWork& work : lanes) {
    if (work.issued == work.complete) continue;
    Seen seen = {work.complete, now};
    const auto before = lanes_.find(work.lane);
    if (before != lanes_.end() && before->second.complete == work.complete) {
      seen.since = before->second.since;
    }
    under_way.emplace(work.lane, seen);
    since = std::min(since, seen.since);
  }
  lanes_ = std::move(under_way);
  return since;
}

}  // namespace warpline::worker
