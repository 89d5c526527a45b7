#include "client_stub/core/memory/shared_host_memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "common/sealed_memory.h"
#include "common/unique_fd.h"
#include "proto/frames.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace warpline::stub {
namespace {

// Allocations below kLarge share segments of kSegmentBytes.
constexpr uint64_t kLarge = 1u << 20;
constexpr uint64_t kSegmentBytes = 2u << 20;
// Programs under ThreadSanitizer have their arena above this address, and must have all their
// memory there.
constexpr uint64_t kSanitizersOwn = 0x7e0000000000;

uint64_t Up(uint64_t bytes) {
  return (bytes + kHostPageBytes - 1) / kHostPageBytes * kHostPageBytes;
}

// Makes the system call itself, as arena_reservation.cc does.
bool MapAt(uint64_t at, uint64_t bytes, int protection, int how, int fd) {
  const long got = syscall(SYS_mmap, at, bytes, protection, how, fd, 0);
  if (got == -1) return false;
  if (static_cast<uint64_t>(got) == at) return true;
  syscall(SYS_munmap, got, bytes);
  return false;
}

bool Hold(uint64_t at, uint64_t bytes, int how) {
  return MapAt(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | how, -1);
}

}  // namespace

bool SharedHostMemory::Reserve() {
  if (tried_) return there_;
  tried_ = true;
  there_ = terms_.arena_base < kSanitizersOwn &&
           Hold(kHostArenaBase, kHostArenaBytes, MAP_FIXED_NOREPLACE);
  if (there_) addresses_.Add(kHostArenaBase, kHostArenaBytes);
  return there_;
}

CudaResult SharedHostMemory::AddSegment(HostSharing what, uint64_t bytes, uint64_t* address) {
  if (!addresses_.Take(bytes, address)) return CudaResult::kOutOfMemory;
  UniqueFd fd;
  CudaResult result = memory_->ShareHostMemory(what, *address, bytes, &fd);
  if (result == CudaResult::kSuccess &&
      !(fd.valid() &&
        MapAt(*address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd.get()))) {
    memory_->ShareHostMemory(HostSharing::kGiveBack, *address, bytes, &fd);
    result = CudaResult::kOutOfMemory;
  }
  if (result != CudaResult::kSuccess) {
    addresses_.Add(*address, bytes);
    return result;
  }
  // As with memory that a driver has locked, the child of a fork has no part in it.
  madvise(reinterpret_cast<void*>(*address), bytes, MADV_DONTFORK);
  segments_[*address].bytes = bytes;
  return CudaResult::kSuccess;
}

CudaResult SharedHostMemory::AllocateWhole(HostSharing what, uint64_t bytes, uint64_t* address) {
  const CudaResult added = AddSegment(what, bytes, address);
  if (added != CudaResult::kSuccess) return added;
  segments_[*address].used = bytes;
  segments_[*address].whole = true;
  allocated_[*address] = bytes;
  return CudaResult::kSuccess;
}

CudaResult SharedHostMemory::AllocateForProgram(uint64_t bytes, uint64_t* address) {
  if (bytes > kHostArenaBytes) return CudaResult::kOutOfMemory;
  // An older server empties all memory when the session ends.
  if ((terms_.features & kFeatureOutlives) == 0) return CudaResult::kNotSupported;
  MutexLock lock(&mu_);
  if (!Reserve()) return CudaResult::kNotSupported;
  return AllocateWhole(HostSharing::kTakeForProgram, Up(bytes), address);
}

CudaResult SharedHostMemory::AllocateStaging(uint64_t bytes, uint64_t most, uint64_t* address,
                                             uint64_t* got) {
  if (bytes > most || most > kHostArenaBytes) return CudaResult::kOutOfMemory;
  bytes = Up(bytes);
  most = Up(most);
  MutexLock lock(&mu_);
  if (!Reserve()) return CudaResult::kNotSupported;
  uint64_t at = 0;
  if (!addresses_.Take(most, &at)) return CudaResult::kOutOfMemory;
  UniqueFd fd;
  CudaResult result = memory_->ShareHostMemory(HostSharing::kTakeForStaging, at, bytes, &fd);
  uint64_t size = 0;
  if (result == CudaResult::kSuccess) {
    size = std::min(SealedBytes(fd.get()).value_or(0), most) / kHostPageBytes * kHostPageBytes;
    if (size == 0 || !MapAt(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd.get())) {
      memory_->ShareHostMemory(HostSharing::kGiveBack, at, bytes, &fd);
      result = CudaResult::kOutOfMemory;
    }
  }
  if (result != CudaResult::kSuccess) {
    addresses_.Add(at, most);
    return result;
  }
  // The server may name as much of the rest as it was asked for.
  const uint64_t taken = std::max(size, bytes);
  if (taken < most) addresses_.Add(at + taken, most - taken);
  madvise(reinterpret_cast<void*>(at), size, MADV_DONTFORK);
  *address = at;
  *got = size;
  return CudaResult::kSuccess;
}

CudaResult SharedHostMemory::Allocate(uint64_t bytes, uint64_t* address) {
  if (bytes > kHostArenaBytes) return CudaResult::kOutOfMemory;
  bytes = Up(bytes);
  MutexLock lock(&mu_);
  if (!Reserve() || refused_) return CudaResult::kNotSupported;
  if (bytes >= kLarge) return AllocateWhole(HostSharing::kTake, bytes, address);
  bool fresh = false;
  if (!free_.Take(bytes, address)) {
    uint64_t segment;
    const CudaResult added = AddSegment(HostSharing::kTake, kSegmentBytes, &segment);
    if (added == CudaResult::kNotSupported) refused_ = true;
    if (added != CudaResult::kSuccess) return added;
    free_.Add(segment, kSegmentBytes);
    free_.TakeAt(segment, bytes);
    *address = segment;
    fresh = true;
  }
  std::prev(segments_.upper_bound(*address))->second.used += bytes;
  allocated_[*address] = bytes;
  if (!fresh) std::memset(reinterpret_cast<void*>(*address), 0, bytes);
  return CudaResult::kSuccess;
}

void SharedHostMemory::Free(uint64_t address) {
  MutexLock lock(&mu_);
  const auto allocated = allocated_.find(address);
  if (allocated == allocated_.end()) return;
  const uint64_t bytes = allocated->second;
  allocated_.erase(allocated);
  const auto segment = std::prev(segments_.upper_bound(address));
  segment->second.used -= bytes;
  const bool small = !segment->second.whole;
  if (small) free_.Add(address, bytes);
  // One segment for small allocations stays.
  if (segment->second.used != 0 || (small && segments_.size() == 1)) return;
  const uint64_t begin = segment->first;
  const uint64_t all = segment->second.bytes;
  if (small && !free_.TakeAt(begin, all)) return;
  segments_.erase(segment);
  UniqueFd none;
  memory_->ShareHostMemory(HostSharing::kGiveBack, begin, all, &none);
  Hold(begin, all, MAP_FIXED);
  addresses_.Add(begin, all);
}

}  // namespace warpline::stub
