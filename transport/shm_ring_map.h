// The mapping of a ShmRing. Private to shm_ring.
#ifndef WARPLINE_TRANSPORT_SHM_RING_MAP_H_
#define WARPLINE_TRANSPORT_SHM_RING_MAP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace warpline {

// The shared page. The indexes lie apart, so that the two sides do not fight for a cache line.
struct ShmRingHeader {
  alignas(128) std::atomic<uint64_t> tail;  // Bytes ever written.
  std::atomic<uint32_t> writer_sleeps;
  alignas(128) std::atomic<uint64_t> head;  // Bytes ever read.
  std::atomic<uint32_t> reader_sleeps;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Owns the mapping, not the descriptor. Movable.
class ShmRingMap {
 public:
  // Checks the seals and the size before anything is touched. INVALID_ARGUMENT when they are wrong.
  static absl::StatusOr<ShmRingMap> Map(int memory_fd);

  ShmRingMap(ShmRingMap&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), capacity_(other.capacity_) {}
  ShmRingMap& operator=(ShmRingMap&&) = delete;
  ~ShmRingMap();

  ShmRingHeader* header() const { return reinterpret_cast<ShmRingHeader*>(base_); }
  size_t capacity() const { return capacity_; }
  // Where the byte with this index lies; `capacity` bytes from there on are contiguous.
  char* At(uint64_t index) const { return base_ + kHeaderSize + (index & (capacity_ - 1)); }

  static constexpr size_t kHeaderSize = 4096;
  static constexpr size_t kMaxCapacity = size_t{1} << 30;

 private:
  ShmRingMap(char* base, size_t capacity) : base_(base), capacity_(capacity) {}

  char* base_;
  size_t capacity_;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_SHM_RING_MAP_H_
