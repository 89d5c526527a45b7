// Counts what looks like an address of a neighbour's among the parameters of a session's kernels.
//
// Guarded kernels reach nothing through such a value, which may be a number that only looks like
// one, so it is not refused. Many of them say that somebody tries.
#ifndef WARPLINE_SERVER_WORKER_MEMORY_NEIGHBOUR_POINTERS_H_
#define WARPLINE_SERVER_WORKER_MEMORY_NEIGHBOUR_POINTERS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/types/span.h"
#include "server/device/device.h"
#include "server/hostlink/handover/session_usage.h"
#include "server/worker/memory/arena_book.h"

namespace warpline::worker {

// Thread-safe; takes no lock unless a value lies in nothing of the session's and between others'
// arenas. A process with one session looks at no value.
class NeighbourPointers {
 public:
  // So many words of a launch are looked at: as many as 4 KiB of parameters have.
  static constexpr size_t kMostWords = 512;

  // `arenas`, where the session's own arena, at `base`, is entered too, and `usage`, in which
  // Usage::kNeighbourPointers counts, are borrowed.
  NeighbourPointers(const ArenaBook* arenas, uint64_t base, uint64_t bytes, SharedUsage* usage)
      : arenas_(arenas), base_(base), bytes_(bytes), usage_(usage) {}

  // Looks at the aligned words of 8 bytes in parameters of that size or more; smaller ones hold no
  // address. `params` is the buffer of a launch or of a graph's node, and may be shorter than the
  // layout says.
  void Look(absl::Span<const device::ParamLayout> layout, std::string_view params) const {
    if (arenas_->size() > 1) Count(layout, params);
  }

 private:
  void Count(absl::Span<const device::ParamLayout> layout, std::string_view params) const;

  const ArenaBook* const arenas_;
  const uint64_t base_;
  const uint64_t bytes_;
  SharedUsage* const usage_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_MEMORY_NEIGHBOUR_POINTERS_H_
