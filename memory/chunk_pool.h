// The chunks of one device: made on demand, scrubbed between tenants, and kept for the next
// request.
#ifndef WARPLINE_MEMORY_CHUNK_POOL_H_
#define WARPLINE_MEMORY_CHUNK_POOL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "memory/chunk.h"

namespace warpline {

// Makes and zeroes device memory; in a server the keeper process does this. The pool calls it on
// its own thread, and calls may block.
class ChunkMaker {
 public:
  virtual ~ChunkMaker() = default;
  // Makes `count` zeroed chunks of `bytes` each; fewer, or none, when the device's memory runs out.
  virtual absl::StatusOr<std::vector<UniqueFd>> Create(uint64_t bytes, size_t count) = 0;
  // Zeroes the chunks. Takes at most kMaxBatch of them.
  virtual absl::Status Scrub(absl::Span<const Chunk> chunks) = 0;

  static constexpr size_t kMaxBatch = 200;
};

// Thread-compatible.
class ChunkPool {
 public:
  struct Options {
    // The bytes that may exist at a time, granted and pooled: the device's memory less a reserve.
    uint64_t capacity_bytes = 0;
    // The number of chunks, and so of descriptors, that may exist at a time.
    size_t max_chunks = 16384;
  };

  struct Stats {
    uint64_t granted_bytes = 0;
    uint64_t pooled_bytes = 0;  // Clean, ready to be granted.
    uint64_t dirty_bytes = 0;   // Returned and not yet scrubbed.
    size_t chunks = 0;
  };

  // `maker` is borrowed.
  ChunkPool(const Options& options, ChunkMaker* maker) : options_(options), maker_(maker) {}

  // Hands out zeroed chunks, largest first, for as much of `want_bytes` as there is room for, and
  // for at least `min_bytes`. Both are multiples of 2 MiB, and min_bytes <= want_bytes. No chunk is
  // larger than `largest_bytes`. RESOURCE_EXHAUSTED when there is less room than that; the maker's
  // error when it fails.
  absl::StatusOr<std::vector<Chunk>> Take(uint64_t min_bytes, uint64_t want_bytes,
                                          uint64_t largest_bytes = kChunkClasses.front());

  // Takes back chunks of Take() that are no longer mapped anywhere. They are granted again only
  // after ScrubSome() has cleaned them.
  void Return(std::vector<Chunk> chunks);

  // Cleans one batch of returned chunks; returns true when more are left. Chunks that cannot be
  // scrubbed are given up, which hands their memory back to the device.
  bool ScrubSome();

  // Hands all clean chunks back to the device. Meant for a pool that has not been used for a while:
  // others may want the memory, and making chunks anew costs little.
  void Trim() { GiveUpPooled(pooled_bytes_); }

  Stats stats() const;

 private:
  std::vector<Chunk>& Clean(size_t chunk_class) { return clean_[chunk_class]; }
  uint64_t held_bytes() const { return granted_bytes_ + pooled_bytes_ + dirty_bytes_; }
  uint64_t TakeClean(size_t chunk_class, uint64_t want_bytes, std::vector<Chunk>* taken);
  absl::StatusOr<uint64_t> TakeNew(size_t chunk_class, uint64_t want_bytes,
                                   std::vector<Chunk>* taken);
  bool MakeRoomFor(uint64_t bytes);
  void GiveUpPooled(uint64_t needed_bytes);
  void ReturnClean(std::vector<Chunk> chunks);

  const Options options_;
  ChunkMaker* const maker_;
  std::array<std::vector<Chunk>, kChunkClasses.size()> clean_;
  std::vector<Chunk> dirty_;
  uint64_t granted_bytes_ = 0;
  uint64_t pooled_bytes_ = 0;
  uint64_t dirty_bytes_ = 0;
  size_t chunks_ = 0;
};

}  // namespace warpline

#endif  // WARPLINE_MEMORY_CHUNK_POOL_H_
