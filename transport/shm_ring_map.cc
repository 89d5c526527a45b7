#include "transport/shm_ring_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>

namespace warpline {

absl::StatusOr<ShmRingMap> ShmRingMap::Map(int memory_fd) {
  constexpr int kNeededSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = fcntl(memory_fd, F_GET_SEALS);
  struct stat info;
  if (seals < 0 || (seals & kNeededSeals) != kNeededSeals || fstat(memory_fd, &info) != 0) {
    return absl::InvalidArgumentError("not the memory of a ring: no seals");
  }
  const size_t capacity = info.st_size - kHeaderSize;
  if (static_cast<size_t>(info.st_size) < 2 * kHeaderSize || capacity > kMaxCapacity ||
      !std::has_single_bit(capacity)) {
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
