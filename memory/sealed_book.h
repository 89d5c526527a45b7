// What of its memory a session's client has, where all of it stays mapped whatever the client does.
#ifndef WARPLINE_MEMORY_SEALED_BOOK_H_
#define WARPLINE_MEMORY_SEALED_BOOK_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace warpline {

// The client has what was added and what it took, less what it returned. Thread-compatible.
class SealedBook {
 public:
  // The memory at [va, va + bytes) is the client's. Ranges are added in order of address, before
  // anything else is done.
  void Add(uint64_t va, uint64_t bytes);

  // Gives back a part of what the client has. INVALID_ARGUMENT, with nothing done, when the client
  // does not have all of [va, va + bytes), or that is not in whole granules.
  absl::Status Return(uint64_t va, uint64_t bytes);

  // Takes what was returned at `va`: as much as there is, from `min_bytes` to `want_bytes`. Returns
  // how much. RESOURCE_EXHAUSTED when there is less; INVALID_ARGUMENT when the client has a part of
  // the least that it asks for, or that is not in whole granules.
  absl::StatusOr<uint64_t> Take(uint64_t va, uint64_t min_bytes, uint64_t want_bytes);

 private:
  // Ends by starts. Neighbours are one range.
  using Ranges = std::map<uint64_t, uint64_t>;
  // The range that holds `va`, or end().
  static Ranges::iterator Holding(Ranges* ranges, uint64_t va);
  static void Insert(Ranges* ranges, uint64_t begin, uint64_t end);
  // REQUIRES: all of it lies in the range at `it`.
  static void Cut(Ranges* ranges, Ranges::iterator it, uint64_t begin, uint64_t end);

  Ranges held_;
  Ranges returned_;
};

}  // namespace warpline

#endif  // WARPLINE_MEMORY_SEALED_BOOK_H_
