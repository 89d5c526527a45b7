// The chunks of one device: some made ahead, the others on demand, and each granted once.
//
// A chunk that a worker has had is closed and never granted again, because descriptors travel: a
// taken-over worker may have given its away, and whoever has it could read what the next session
// writes (docs/decisions/0021-chunks-are-granted-once.md).
#ifndef WARPLINE_MEMORY_CHUNK_POOL_H_
#define WARPLINE_MEMORY_CHUNK_POOL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "memory/chunk.h"
#include "memory/quarantine.h"
#include "memory/quota.h"

namespace warpline {

// Makes zeroed device memory; in a server the keeper process does this. The pool calls it on its
// own thread, and calls may block.
class ChunkMaker {
 public:
  virtual ~ChunkMaker() = default;
  // Makes `count` zeroed chunks of `bytes` each; fewer, or none, when the device's memory runs out.
  virtual absl::StatusOr<std::vector<UniqueFd>> Create(uint64_t bytes, size_t count) = 0;
  // The memory of the device that nobody has. Nothing for a device whose memory is free as soon as
  // its last descriptor is closed.
  virtual absl::StatusOr<std::optional<uint64_t>> FreeBytes() = 0;

  static constexpr size_t kMaxBatch = 200;
};

// Thread-compatible.
class ChunkPool {
 public:
  struct Options {
    // The bytes that may exist at a time, granted and in stock: the device's memory less a reserve.
    uint64_t capacity_bytes = 0;
    // The number of chunks, and so of descriptors, that may exist at a time.
    size_t max_chunks = 16384;
    // See Quarantine.
    absl::Duration patience = kReturnPatience;
  };

  struct Stats {
    uint64_t granted_bytes = 0;
    uint64_t stock_bytes = 0;    // Zeroed, ready to be granted.
    uint64_t leaving_bytes = 0;  // Returned, and expected to be free in a moment.
    uint64_t stuck_bytes = 0;    // Returned, and not free in time.
    uint64_t claimed_bytes = 0;  // Others take them, without chunks.
    size_t chunks = 0;

    // All that is in use.
    uint64_t used_bytes() const { return granted_bytes + claimed_bytes; }
  };

  // `maker` is borrowed.
  ChunkPool(const Options& options, ChunkMaker* maker)
      : options_(options),
        maker_(maker),
        leaving_({.capacity_bytes = options.capacity_bytes, .patience = options.patience}) {}

  // Hands out zeroed chunks, largest first and those in stock before new ones, for as much of
  // `want_bytes` as there is room for, and for at least `min_bytes`. Both are multiples of 2 MiB,
  // and min_bytes <= want_bytes. No chunk is larger than `largest_bytes`. RESOURCE_EXHAUSTED when
  // there is less room than that, which may pass once what is leaving has left; the maker's error
  // when it fails.
  absl::StatusOr<std::vector<Chunk>> Take(uint64_t min_bytes, uint64_t want_bytes,
                                          uint64_t largest_bytes = kChunkClasses.front());

  // Takes chunks of Take() whose process is gone, and what they are charged to until their memory
  // is free. Settle() closes them, and calls `settled` unless it is null.
  void Return(std::vector<Chunk> chunks, std::vector<Reservation> bill,
              Quarantine::Settled settled = nullptr);
  // Takes back chunks whose descriptors have been in no other process: they go to the stock.
  void ReturnUnused(std::vector<Chunk> chunks);

  // Others take so much of the device, of which there are no chunks: their memory comes of the
  // same capacity. False, and nothing claimed, when there is less.
  bool Claim(uint64_t bytes);
  // Undoes a Claim(), or a part of it.
  void Unclaim(uint64_t bytes) { claimed_bytes_ -= bytes; }

  // What of the device is free or in chunks. Nothing where the maker does not say.
  absl::StatusOr<std::optional<uint64_t>> KnownBytes();

  // Goes on with what was returned; see Quarantine.
  void Settle(absl::Time now);
  const Quarantine& leaving() const { return leaving_; }

  // Makes a part of what the stock lacks, or gives up what it has beyond that; returns true when
  // it may lack more. The stock is some chunks of each size, as far as they are a small part of
  // the memory that nobody holds.
  bool Restock();

  Stats stats() const;

 private:
  // What cannot be granted, whatever is given up of the stock. What is stuck is not part of it: if
  // the device has the memory after all, it is granted, and otherwise it cannot be made.
  uint64_t taken_bytes() const {
    return granted_bytes_ + claimed_bytes_ + leaving_.leaving_bytes();
  }
  uint64_t held_bytes() const { return taken_bytes() + stock_bytes_; }
  size_t chunks() const { return chunks_ + leaving_.open_chunks(); }
  uint64_t TakeStock(size_t chunk_class, uint64_t want_bytes, std::vector<Chunk>* taken);
  // Sets `*short_by` to what the device lacked of what the books say that it has.
  absl::StatusOr<uint64_t> TakeNew(size_t chunk_class, uint64_t want_bytes,
                                   std::vector<Chunk>* taken, uint64_t* short_by);
  bool MakeRoomFor(uint64_t bytes);
  void GiveUpStock(uint64_t needed_bytes);
  size_t WantedInStock(size_t chunk_class) const;

  const Options options_;
  ChunkMaker* const maker_;
  std::array<std::vector<Chunk>, kChunkClasses.size()> stock_;  // By class.
  Quarantine leaving_;
  uint64_t granted_bytes_ = 0;
  uint64_t stock_bytes_ = 0;
  uint64_t claimed_bytes_ = 0;
  size_t chunks_ = 0;  // Granted and in stock.
};

}  // namespace warpline

#endif  // WARPLINE_MEMORY_CHUNK_POOL_H_
