#include "server/gpu_server/memory/guarded_sizes.h"

#include <algorithm>
#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace warpline::server {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// An arena is sealed with so many granules at most, as far as the largest ones suffice: each is a
// call to the driver, and on the CPU device a mapping of the process.
constexpr uint64_t kMostGranules = 512;
constexpr uint64_t kMostSinkGranule = 64 * kMiB;
// The parts of the quota.
constexpr uint64_t kSinkPart = 64;
constexpr uint64_t kVariablePart = 16;
constexpr uint64_t kOutsidePart = 16;
constexpr uint64_t kMostVariableBytes = 256 * kMiB;
constexpr uint64_t kMostOutsideBytes = 256 * kMiB;

uint64_t InChunks(uint64_t bytes) { return bytes - bytes % kChunkGranularity; }

}  // namespace

absl::StatusOr<GuardedSizes> GuardedSizesFor(uint64_t bytes, uint64_t arena_bytes) {
  GuardedSizes sizes;
  sizes.sink_granule_bytes =
      std::bit_floor(std::clamp(std::max(bytes / kSinkPart, arena_bytes / kMostGranules),
                                2 * kChunkGranularity, kMostSinkGranule));
  sizes.variable_bytes =
      InChunks(std::clamp(bytes / kVariablePart, kChunkGranularity, kMostVariableBytes));
  sizes.outside_bytes = std::min(bytes / kOutsidePart, kMostOutsideBytes);
  const uint64_t beside = sizes.own_bytes() + sizes.outside_bytes;
  sizes.memory_bytes = InChunks(bytes - std::min(bytes, beside));
  if (sizes.memory_bytes > 0) return sizes;
  return absl::ResourceExhaustedError(
      absl::StrCat("a guarded session takes ", sizes.own_bytes(),
                   " bytes of the device for its sinks and its variables, and may have ", bytes,
                   " bytes in all: have more allowed (--memory, which all processes of a run have "
                   "together), or use --tier=isolated"));
}

}  // namespace warpline::server
