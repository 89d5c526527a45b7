// Memory that was in a process which is gone, until the device shows that it is free.
//
// A chunk whose descriptor was in a tenant's process is never granted again: its descriptor is
// closed, which frees the memory unless another process still has one. That it is free is not taken
// for granted. It stays on its tenant's bill, and no other memory is made in its place, until the
// device's own count has grown by it. A part that the count shows is free at once.
//
// What has not shown up in time is stuck. It stays on the bill, but the device decides alone
// whether other memory can be made: the count also falls when others take memory, and a mistake
// must not keep memory from everybody.
#ifndef WARPLINE_MEMORY_QUARANTINE_H_
#define WARPLINE_MEMORY_QUARANTINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "memory/chunk.h"
#include "memory/quota.h"

namespace warpline {

// A device has milliseconds of work with what an honest session returns.
inline constexpr absl::Duration kReturnPatience = absl::Seconds(10);

// Thread-compatible.
class Quarantine {
 public:
  struct Options {
    // What is ours to give out. When the device has as much as that, free or behind descriptors of
    // ours, then nobody misses memory that does not come back.
    uint64_t capacity_bytes = 0;
    // How long a return may stay unexplained before it counts as stuck.
    absl::Duration patience = kReturnPatience;
  };

  // The memory that is the device's to give or that the books know of: what the device counts as
  // free and all that exists behind descriptors of ours. Nothing for a device whose memory is free
  // as soon as its last descriptor is closed. An error when the device cannot be asked now.
  using KnownBytes = std::function<absl::StatusOr<std::optional<uint64_t>>()>;

  explicit Quarantine(const Options& options) : options_(options) {}

  // Told how many of a return's bytes have not shown up when it is settled.
  using Settled = std::function<void(uint64_t missing_bytes)>;
  // Takes chunks whose process is gone, and what they are charged to. May take nothing of either.
  // `settled` may be null.
  void Add(std::vector<Chunk> chunks, std::vector<Reservation> bill, Settled settled = nullptr);

  // Closes what was added, one return after the other, each once the former one is settled: free,
  // or stuck.
  void Settle(absl::Time now, const KnownBytes& known_bytes);

  // Returns are numbered by their order: so many were added, and so many of them are settled.
  uint64_t added() const { return added_; }
  uint64_t settled() const { return settled_; }
  bool pending() const { return settled_ < added_; }

  // What waits with its descriptors open, and so exists.
  uint64_t open_bytes() const { return open_bytes_; }
  size_t open_chunks() const { return open_chunks_; }
  // What is expected to be free in a moment: what is open, and what was closed and has not shown
  // up.
  uint64_t leaving_bytes() const { return open_bytes_ + closed_bytes_; }
  // What the device did not show to be free in time. Still billed, until it is.
  uint64_t stuck_bytes() const { return stuck_bytes_; }

 private:
  struct Return {
    std::vector<Chunk> chunks;
    std::vector<Reservation> bill;
    Settled settled;
    uint64_t bytes = 0;
    uint64_t missing = 0;       // The part of them that has not shown up since it was closed.
    uint64_t known_before = 0;  // Before it was closed.
    absl::Time closed;
  };

  // False when it cannot be begun now.
  bool BeginNext(absl::Time now, const KnownBytes& known_bytes);
  void Close(Return* returned);
  // Takes what the device shows off the bill. True when nothing is missing any more.
  static bool TakeShown(uint64_t known_bytes, Return* returned);
  void FreeStuck(uint64_t known_bytes);

  const Options options_;
  std::deque<Return> waiting_;
  std::optional<Return> watched_;  // Closed, and expected to be free in a moment.
  std::deque<Return> stuck_;
  uint64_t added_ = 0;
  uint64_t settled_ = 0;
  uint64_t open_bytes_ = 0;
  size_t open_chunks_ = 0;
  uint64_t closed_bytes_ = 0;
  uint64_t stuck_bytes_ = 0;
};

}  // namespace warpline

#endif  // WARPLINE_MEMORY_QUARANTINE_H_
