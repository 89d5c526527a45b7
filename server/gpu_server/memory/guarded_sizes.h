// How a guarded session's memory of its device is divided. All of it counts against its quota: what
// its arena is filled with, and what the session takes beside that.
//
//   auto sizes = GuardedSizesFor(left_bytes, arena_bytes);
//   if (!sizes.ok()) return sizes.status();  // The quota is too small for the tier.
//   <charge sizes->own_bytes(), then have the worker take that, then grant sizes->memory_bytes>
#ifndef WARPLINE_SERVER_GPU_SERVER_MEMORY_GUARDED_SIZES_H_
#define WARPLINE_SERVER_GPU_SERVER_MEMORY_GUARDED_SIZES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/frames.h"

namespace warpline::server {

struct GuardedSizes {
  // Where nothing else lies, the arena and the zones beside it show one granule of this size again
  // and again, and one of kChunkGranularity where it does not fit (device::Memory::Seal).
  uint64_t sink_granule_bytes = 0;
  // For the variables of all modules.
  uint64_t variable_bytes = 0;
  // For streams and graphs, which are charged as they are made.
  uint64_t outside_bytes = 0;
  // What is left for the program's allocations, in whole chunks.
  uint64_t memory_bytes = 0;

  // What the session takes of the device as it opens, whatever its program does.
  uint64_t own_bytes() const { return kChunkGranularity + sink_granule_bytes + variable_bytes; }
};

// For a session that may have `bytes` in all. RESOURCE_EXHAUSTED where nothing would be left for
// its program.
absl::StatusOr<GuardedSizes> GuardedSizesFor(uint64_t bytes, uint64_t arena_bytes);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MEMORY_GUARDED_SIZES_H_
