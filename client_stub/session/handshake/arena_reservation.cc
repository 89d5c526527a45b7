#include "client_stub/session/handshake/arena_reservation.h"

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace warpline::stub {
namespace {

constexpr uint64_t kGiB = 1ull << 30;
constexpr uint64_t kTiB = 1ull << 40;

// These places are free in an ordinary process: they are far below the stacks and libraries at
// 0x7f... and the executable at 0x55..., and outside AddressSanitizer's shadow (which ends at
// 0x10007fff8000).
constexpr uint64_t kPlaces[] = {0x300000000000, 0x200000000000, 0x400000000000, 0x180000000000};
// ThreadSanitizer ends the process for a mapping outside its few ranges; libraries are at the upper
// end of this one.
constexpr uint64_t kTsanPlaces[] = {0x7e8000000000, 0x7e9000000000, 0x7ea000000000, 0x7ec000000000};

// The range of these places.
constexpr uint64_t kFirstPlace = 0x180000000000, kEndOfPlaces = 0x500000000000;
constexpr int kPlacesOfASize = 6;

constexpr uint64_t kSizes[] = {4 * kTiB, kTiB, 256 * kGiB, 64 * kGiB, 16 * kGiB, 4 * kGiB};

}  // namespace

ArenaReservation& ArenaReservation::operator=(ArenaReservation&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

// The destructor and At() make raw system calls, because a program or a sanitizer that intercepts
// mmap() would take the range for ordinary memory.
ArenaReservation::~ArenaReservation() {
  if (bytes_ != 0) syscall(SYS_munmap, base_, bytes_);
}

ArenaReservation ArenaReservation::At(uint64_t base, uint64_t bytes) {
  ArenaReservation reservation;
  const long at = syscall(SYS_mmap, base, bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == -1) return reservation;
  // Kernels before 4.17 take the address as a hint only.
  if (static_cast<uint64_t>(at) != base) {
    syscall(SYS_munmap, at, bytes);
    return reservation;
  }
  reservation.base_ = base;
  reservation.bytes_ = bytes;
  return reservation;
}

std::vector<ArenaCandidate> ArenaCandidates() {
  std::vector<ArenaCandidate> candidates;
  for (const uint64_t bytes : kSizes) {
    for (const uint64_t base : kPlaces) candidates.push_back({base, bytes});
    for (const uint64_t base : kTsanPlaces) {
      if (base % bytes == 0) candidates.push_back({base, bytes});
    }
  }
  return candidates;
}

std::vector<ArenaCandidate> SharedArenaCandidates() {
  std::vector<ArenaCandidate> candidates;
  for (const uint64_t bytes : kSizes) {
    for (int i = 0; i < kPlacesOfASize; ++i) {
      uint64_t number = 0;
      if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        number = static_cast<uint64_t>(i);
      const uint64_t places = (kEndOfPlaces - kFirstPlace) / bytes;
      candidates.push_back({kFirstPlace + number % places * bytes, bytes});
    }
  }
  return candidates;
}

}  // namespace warpline::stub
