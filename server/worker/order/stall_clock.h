// How long work of a session's lanes has been under way without progress.
#ifndef WARPLINE_SERVER_WORKER_ORDER_STALL_CLOCK_H_
#define WARPLINE_SERVER_WORKER_ORDER_STALL_CLOCK_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace warpline::worker {

// What is known of a lane at one look: how much was issued to the device, and how much of that is
// complete.
struct LaneWork {
  const void* lane = nullptr;  // Tells lanes apart, and is not looked at.
  uint64_t issued = 0;
  uint64_t complete = 0;
};

// It sees what happens between two looks only by its effect: a lane makes progress when more is
// complete than at the look before. Not thread-safe.
class StallClock {
 public:
  // Looks at all lanes there are. Returns since when the one has made no progress that has made none
  // for the longest, InfiniteFuture() if nothing is under way.
  absl::Time Look(absl::Span<const LaneWork> lanes, absl::Time now);

 private:
  struct Seen {
    uint64_t complete = 0;
    absl::Time since;
  };

  // The lanes with work under way.
  absl::flat_hash_map<const void*, Seen> lanes_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_ORDER_STALL_CLOCK_H_
