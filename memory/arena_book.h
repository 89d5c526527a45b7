// Which ranges of one session's arena are backed by which chunks.
#ifndef WARPLINE_MEMORY_ARENA_BOOK_H_
#define WARPLINE_MEMORY_ARENA_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "memory/chunk.h"
#include "memory/quota.h"

namespace warpline {

// A range of device addresses.
struct ArenaRange {
  uint64_t base = 0;
  uint64_t bytes = 0;
};

inline constexpr uint64_t kMinArenaBytes = 4ull << 30;
// What the address space of an H200 takes in one reservation.
inline constexpr uint64_t kMaxArenaBytes = 1ull << 45;
// User addresses of x86-64 Linux end here.
inline constexpr uint64_t kAddressLimit = 1ull << 47;

// INVALID_ARGUMENT, with the reason, unless the size is a power of two from kMinArenaBytes to
// `max_bytes` and the base a multiple of it other than 0, all below kAddressLimit.
absl::Status ValidateArena(const ArenaRange& arena, uint64_t max_bytes);

// What was granted at one address in one go.
struct Grant {
  uint64_t va = 0;
  std::vector<Chunk> chunks;  // In order of address.
  Reservation reservation;
  uint64_t bytes() const { return TotalBytes(chunks); }
};

// Owns the descriptors of what is backed, and the quota that it takes. Thread-compatible.
class ArenaBook {
 public:
  // `arena` has been validated.
  explicit ArenaBook(const ArenaRange& arena) : arena_(arena) {}

  // Checks a request as it came from a client: INVALID_ARGUMENT when sizes or address are not
  // multiples of 2 MiB, min_bytes is 0 or above want_bytes, the range [va, va + want_bytes) leaves
  // the arena, or a part of it is backed already.
  absl::Status CheckRequest(uint64_t va, uint64_t min_bytes, uint64_t want_bytes) const;

  // Enters a grant for a request that CheckRequest() accepts now, with no more bytes than it
  // wanted. INVALID_ARGUMENT, and the grant is dropped, when it would not accept it.
  absl::Status Add(Grant grant);

  // Removes the grants that make up exactly [va, va + bytes), in order of address.
  // INVALID_ARGUMENT, with nothing removed, when there is a gap or a grant lies there in part.
  absl::StatusOr<std::vector<Grant>> Remove(uint64_t va, uint64_t bytes);

  // Calls `visit(va, chunk)` for every chunk, in order of address.
  template <typename Visit>
  void ForEachChunk(Visit visit) const {
    for (const auto& [va, entry] : grants_) {
      uint64_t at = va;
      for (const Chunk& chunk : entry.grant.chunks) {
        visit(at, chunk);
        at += chunk.bytes;
      }
    }
  }
  // True when all of [va, va + bytes) is backed.
  bool Backs(uint64_t va, uint64_t bytes) const;

  // Another hold on the chunks that back [va, va + bytes), which also back what lies around it, and
  // where the first of them starts. INVALID_ARGUMENT when not all of it is backed.
  struct Shared {
    uint64_t va = 0;
    std::vector<Chunk> chunks;
  };
  absl::StatusOr<Shared> Share(uint64_t va, uint64_t bytes);
  // Where that would start and how long it would be, without holding it.
  absl::StatusOr<ArenaRange> ShareableRange(uint64_t va, uint64_t bytes) const;

  // Removes all.
  std::vector<Grant> Clear();

  uint64_t backed_bytes() const { return backed_bytes_; }
  size_t chunk_count() const { return chunk_count_; }

 private:
  struct Entry {
    uint64_t bytes;
    Grant grant;
  };
  Grant Take(std::map<uint64_t, Entry>::iterator it);

  const ArenaRange arena_;
  std::map<uint64_t, Entry> grants_;  // By address.
  uint64_t backed_bytes_ = 0;
  size_t chunk_count_ = 0;
};

}  // namespace warpline

#endif  // WARPLINE_MEMORY_ARENA_BOOK_H_
