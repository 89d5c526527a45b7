// The memory handles of its application that a session holds, and the chunks behind them.
#ifndef WARPLINE_MEMORY_HANDLE_BOOK_H_
#define WARPLINE_MEMORY_HANDLE_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "memory/chunk.h"
#include "memory/quota.h"

namespace warpline {

// Memory that the application made (cuMemCreate) or opened, wherever it is mapped.
struct HeldMemory {
  std::vector<Chunk> chunks;
  // Covers the chunks that are not shared; shared chunks bring their own reservation.
  Reservation reservation;
  uint64_t bytes() const { return TotalBytes(chunks); }
};

// Owns the descriptors and the quota that they take. Thread-compatible.
class HandleBook {
 public:
  bool Has(uint64_t handle) const { return held_.contains(handle); }
  // Returns 0 for a handle that does not exist.
  uint64_t BytesOf(uint64_t handle) const;
  // Returns false, and changes nothing, when the handle already exists.
  bool Add(uint64_t handle, HeldMemory memory);
  std::optional<HeldMemory> Remove(uint64_t handle);

  // Takes another hold on a handle's chunks. INVALID_ARGUMENT for a handle that does not exist.
  absl::StatusOr<std::vector<Chunk>> Share(uint64_t handle);

  // Has the handles' reservations cover what no other session holds any more (EndShare()).
  void EndShares(const Quota* quota);

  // Calls `visit(handle, memory)` for every handle.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [handle, memory] : held_) visit(handle, memory);
  }
  // Calls `visit(handle, chunk)` for every chunk; a handle's chunks come in their order.
  template <typename Visit>
  void ForEachChunk(Visit visit) const {
    for (const auto& [handle, memory] : held_) {
      for (const Chunk& chunk : memory.chunks) visit(handle, chunk);
    }
  }

  // Removes and returns everything, by handle.
  std::map<uint64_t, HeldMemory> Clear();
  // Removes and returns, by handle, what `goes(handle, memory)` is true for.
  std::map<uint64_t, HeldMemory> TakeIf(
      absl::FunctionRef<bool(uint64_t handle, const HeldMemory& memory)> goes);

  size_t size() const { return held_.size(); }
  uint64_t bytes() const { return bytes_; }
  size_t chunk_count() const { return chunk_count_; }

 private:
  std::map<uint64_t, HeldMemory> held_;
  uint64_t bytes_ = 0;
  size_t chunk_count_ = 0;
};

}  // namespace warpline

#endif  // WARPLINE_MEMORY_HANDLE_BOOK_H_
