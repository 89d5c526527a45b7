#include "server/worker/host/driver_layout.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

// A sanitizer's runtime has its own mmap and keeps to ranges of its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WARPLINE_PLACES_DRIVER 1
#endif

#ifdef WARPLINE_PLACES_DRIVER

namespace warpline::worker {
namespace {

// The driver's reservations are 16 MiB and more; allocators of other libraries reserve less.
constexpr size_t kLeastBytes = 16u << 20;
// The driver aligns within what it reserved; the pages of a device have 2 MiB.
constexpr uint64_t kAlignment = 2u << 20;

std::atomic<uint64_t> g_used{0};  // Of the range.

// Returns nullptr when there is no place left, or another mapping is in the way.
void* Reserve(size_t bytes, int flags) {
  constexpr uint64_t kRange = kDriverRangeEnd - kDriverRangeStart;
  if (bytes > kRange) return nullptr;
  const uint64_t wanted = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const uint64_t used = g_used.fetch_add(wanted);
  if (used + wanted > kRange) {
    g_used.fetch_sub(wanted);
    return nullptr;
  }
  const uint64_t place = kDriverRangeStart + used;
  const long at = syscall(SYS_mmap, place, bytes, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == -1) return nullptr;
  if (static_cast<uint64_t>(at) != place) {  // Linux before 4.17.
    syscall(SYS_munmap, at, bytes);
    return nullptr;
  }
  return reinterpret_cast<void*>(at);
}

}  // namespace
}  // namespace warpline::worker

// The executable exports it (see BUILD), so everything that is loaded finds it before libc's.
extern "C" {

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): those of libc are reserved.
__attribute__((visibility("default"))) void* mmap(void* address, size_t bytes, int protection,
                                                  int flags, int fd, off_t offset) noexcept {
  constexpr int kWithoutAWish = MAP_PRIVATE | MAP_ANONYMOUS;
  if (address == nullptr && protection == PROT_NONE && (flags & ~MAP_NORESERVE) == kWithoutAWish &&
      bytes >= warpline::worker::kLeastBytes) {
    void* const place = warpline::worker::Reserve(bytes, flags);
    if (place != nullptr) return place;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, fd, offset));
}

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
__attribute__((visibility("default"))) void* mmap64(void* address, size_t bytes, int protection,
                                                    int flags, int fd, off64_t offset) noexcept {
  return mmap(address, bytes, protection, flags, fd, offset);
}

}  // extern "C"

#endif  // WARPLINE_PLACES_DRIVER
