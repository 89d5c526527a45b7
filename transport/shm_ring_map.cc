#include "transport/shm_ring_map.h"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cstdint>

#include "common/sealed_memory.h"

namespace warpline {

absl::StatusOr<ShmRingMap> ShmRingMap::Map(int memory_fd) {
  const absl::StatusOr<uint64_t> bytes = SealedBytes(memory_fd);
  if (!bytes.ok()) return absl::InvalidArgumentError("not the memory of a ring: no seals");
  const size_t capacity = *bytes - kHeaderSize;
  if (*bytes < 2 * kHeaderSize || capacity > kMaxCapacity || !std::has_single_bit(capacity)) {
    return absl::InvalidArgumentError("not the memory of a ring: odd size");
  }
  const size_t reserved = kHeaderSize + 2 * capacity;
  void* const base =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return absl::ErrnoToStatus(errno, "mmap");
  ShmRingMap map(static_cast<char*>(base), capacity);  // Unmaps on the way out.
  char* const second = map.base_ + kHeaderSize + capacity;
  if (mmap(base, kHeaderSize + capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory_fd,
           0) == MAP_FAILED ||
      mmap(second, capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory_fd,
           kHeaderSize) == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, "mmap");
  }
  return map;
}

ShmRingMap::~ShmRingMap() {
  if (base_ != nullptr) munmap(base_, kHeaderSize + 2 * capacity_);
}

}  // namespace warpline
