// Which memory handles of its application a session holds, and the chunks behind them.
#ifndef WARPLINE_MEMORY_HANDLE_BOOK_H_
#define WARPLINE_MEMORY_HANDLE_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "memory/chunk.h"
#include "memory/quota.h"

namespace warpline {

// Memory that the application made (cuMemCreate) or opened, apart from where it is mapped.
struct HeldMemory {
  std::vector<Chunk> chunks;
  // Of shared chunks none: they bring their own.
  Reservation reservation;
  uint64_t bytes() const { return TotalBytes(chunks); }
};

// Owns the descriptors, and the quota that they take. Thread-compatible.
class HandleBook {
 public:
  bool Has(uint64_t handle) const { return held_.contains(handle); }
  // 0 for a handle that there is not.
  uint64_t BytesOf(uint64_t handle) const;
  // False, and nothing changes, for a handle that exists.
  bool Add(uint64_t handle, HeldMemory memory);
  std::optional<HeldMemory> Remove(uint64_t handle);

  // Another hold on a handle's chunks. INVALID_ARGUMENT for a handle that there is not.
  absl::StatusOr<std::vector<Chunk>> Share(uint64_t handle);

  // Calls `visit(handle, chunk)` for every chunk, a handle's in their order.
  template <typename Visit>
  void ForEachChunk(Visit visit) const {
    for (const auto& [handle, memory] : held_) {
      for (const Chunk& chunk : memory.chunks) visit(handle, chunk);
    }
  }

  // Removes all.
  std::vector<HeldMemory> Clear();

  uint64_t bytes() const { return bytes_; }
  size_t chunk_count() const { return chunk_count_; }

 private:
  std::map<uint64_t, HeldMemory> held_;
  uint64_t bytes_ = 0;
  size_t chunk_count_ = 0;
};

}  // namespace warpline

#endif  // WARPLINE_MEMORY_HANDLE_BOOK_H_
