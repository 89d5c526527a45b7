// Knows which ranges of one session's arena are backed by which chunks.
#ifndef WARPLINE_MEMORY_ARENA_BOOK_H_
#define WARPLINE_MEMORY_ARENA_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
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
// As much as the address space of an H200 takes in one reservation.
inline constexpr uint64_t kMaxArenaBytes = 1ull << 45;
// The user addresses of x86-64 Linux end here.
inline constexpr uint64_t kAddressLimit = 1ull << 47;

// Returns OK when the size is a power of two from kMinArenaBytes to `max_bytes`, the base is a
// multiple of it other than 0, and all of the arena lies below kAddressLimit and beside the memory
// that host and device share (kHostArenaBase). INVALID_ARGUMENT says why not.
absl::Status ValidateArena(const ArenaRange& arena, uint64_t max_bytes);

// Memory that was granted at one address in one go.
struct Grant {
  uint64_t va = 0;
  std::vector<Chunk> chunks;  // In order of address.
  Reservation reservation;
  uint64_t bytes() const { return TotalBytes(chunks); }
};

// Owns the descriptors of the chunks that back the arena, and the quota that they take.
// Thread-compatible.
class ArenaBook {
 public:
  // `arena` must have been validated.
  explicit ArenaBook(const ArenaRange& arena) : arena_(arena) {}

  // Checks a request as it came from a client. INVALID_ARGUMENT when sizes or address are not
  // multiples of 2 MiB, min_bytes is 0 or above want_bytes, the range [va, va + want_bytes) leaves
  // the arena, or a part of it is already backed.
  absl::Status CheckRequest(uint64_t va, uint64_t min_bytes, uint64_t want_bytes) const;

  // Enters a grant for a request that CheckRequest() accepts now, with no more bytes than the
  // request wanted. Drops the grant and returns INVALID_ARGUMENT when CheckRequest() would not
  // accept it.
  absl::Status Add(Grant grant);

  // Removes and returns the grants that make up exactly [va, va + bytes), in order of address.
  // INVALID_ARGUMENT, with nothing removed, when there is a gap or a grant lies there only in part.
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
  // Returns the end of the grant in which `va` lies, or `va` where it lies in none.
  uint64_t EndOfGrant(uint64_t va) const;
  // True when all of [va, va + bytes) is backed.
  bool Backs(uint64_t va, uint64_t bytes) const;

  // A further hold on the chunks that back a range, and the address where the first chunk starts.
  // The chunks may back more than the range.
  struct Shared {
    uint64_t va = 0;
    std::vector<Chunk> chunks;
  };
  // Takes a further hold on the chunks that back [va, va + bytes). INVALID_ARGUMENT when a part of
  // the range is not backed.
  absl::StatusOr<Shared> Share(uint64_t va, uint64_t bytes);
  // Has the grants cover what no other session holds any more (EndShare()).
  void EndShares(const Quota* quota);
  // Returns the range that Share() would give, without taking a hold.
  absl::StatusOr<ArenaRange> ShareableRange(uint64_t va, uint64_t bytes) const;

  // Removes and returns all grants.
  std::vector<Grant> Clear();
  // Removes the chunks for which `goes(va, chunk)` is true, and returns them in order of address.
  // Each grant that is returned, and each that is left, has chunks that lay side by side in one
  // grant.
  std::vector<Grant> TakeIf(absl::FunctionRef<bool(uint64_t va, const Chunk& chunk)> goes);

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
