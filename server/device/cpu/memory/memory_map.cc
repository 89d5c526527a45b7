#include "server/device/cpu/memory/memory_map.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <vector>

#include "absl/status/statusor.h"
#include "common/sealed_memory.h"
#include "common/unique_fd.h"

namespace warpline::cpu {
namespace {

constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 45;
constexpr uint64_t kRegionAlignment = 4096;
// Variables lie at the same addresses in every process that loads the same modules in the same
// order, so that a worker that takes over from another can go on with them. The range is one where
// neither arenas, libraries nor the shadow memory of sanitizers lie.
constexpr uint64_t kRegionsStart = 0x7e8100000000;
constexpr uint64_t kMaxRegionBytes = uint64_t{4} << 30;

void* Pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

uint64_t Granules(uint64_t bytes) { return bytes >> kGranuleShift; }

bool IsAligned(uint64_t value) { return (value & (kGranuleBytes - 1)) == 0; }

}  // namespace

MemoryMap::~MemoryMap() {
  const uint64_t size = size_.load();
  MutexLock lock(&mu_);
  if (size != 0) {
    munmap(Pointer(base_.load() - zone_bytes_), size + 2 * zone_bytes_);
    munmap(granules_, Granules(size));
  }
  for (const auto& [address, region] : regions_) {
    if (region.use != RegionUse::kWindow) munmap(Pointer(address), region.bytes);
  }
}

CudaResult MemoryMap::ReserveArena(uint64_t base, uint64_t size, uint64_t zone_bytes) {
  MutexLock lock(&mu_);
  if (size_.load() != 0 || size == 0 || size > kMaxArenaBytes || (size & (size - 1)) != 0 ||
      !IsAligned(size) || base % size != 0 || base == 0 || base < zone_bytes) {
    return CudaResult::kInvalidValue;
  }
  const uint64_t start = base - zone_bytes;
  const uint64_t bytes = size + 2 * zone_bytes;
  void* const at = mmap(Pointer(start), bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == MAP_FAILED) return CudaResult::kOutOfMemory;
  if (at != Pointer(start)) {  // A kernel without MAP_FIXED_NOREPLACE takes the address as a hint.
    munmap(at, bytes);
    return CudaResult::kOutOfMemory;
  }
  void* const granules = mmap(nullptr, Granules(size), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (granules == MAP_FAILED) {
    munmap(at, bytes);
    return CudaResult::kOutOfMemory;
  }
  granules_ = static_cast<std::atomic<uint8_t>*>(granules);
  zone_bytes_ = zone_bytes;
  base_.store(base, std::memory_order_relaxed);
  size_.store(size, std::memory_order_release);
  return CudaResult::kSuccess;
}

CudaResult MemoryMap::CheckFree(uint64_t va, uint64_t bytes) const {
  if (sealed_) return CudaResult::kNotSupported;
  const uint64_t offset = va - base_.load();
  const uint64_t size = size_.load();
  if (bytes == 0 || !IsAligned(va) || !IsAligned(bytes) || offset >= size ||
      bytes > size - offset) {
    return CudaResult::kInvalidValue;
  }
  const auto next = chunks_.lower_bound(va);
  if (next != chunks_.end() && next->first < va + bytes) return CudaResult::kInvalidValue;
  if (next != chunks_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second > va) return CudaResult::kInvalidValue;
  }
  return CudaResult::kSuccess;
}

CudaResult MemoryMap::MapChunk(uint64_t va, uint64_t bytes, int fd) {
  MutexLock lock(&mu_);
  const CudaResult free = CheckFree(va, bytes);
  if (free != CudaResult::kSuccess) return free;
  const uint64_t offset = va - base_.load();
  if (mmap(Pointer(va), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
      MAP_FAILED) {
    const int error = errno;
    // MAP_FIXED may have dropped the reservation and a sink.
    SetGranules(offset, bytes, 0);
    if (mmap(Pointer(va), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
             -1, 0) == MAP_FAILED) {
      return CudaResult::kOperatingSystem;
    }
    return error == ENOMEM ? CudaResult::kOutOfMemory : CudaResult::kInvalidValue;
  }
  chunks_[va] = bytes;
  SetGranules(offset, bytes, kReads | kWrites);
  return CudaResult::kSuccess;
}

// A sink is no chunk, so that a chunk may be mapped over it.
CudaResult MemoryMap::MapSink(uint64_t va, uint64_t bytes) {
  MutexLock lock(&mu_);
  const CudaResult free = CheckFree(va, bytes);
  if (free != CudaResult::kSuccess) return free;
  if (mmap(Pointer(va), bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return CudaResult::kOutOfMemory;
  }
  const uint64_t offset = va - base_.load();
  for (uint64_t g = Granules(offset); g < Granules(offset + bytes); ++g) {
    if (granules_[g].load() == 0) own_bytes_ += kGranuleBytes;  // Others had a sink already.
  }
  SetGranules(offset, bytes, kReads | kWrites);
  return CudaResult::kSuccess;
}

// All sinks are the same pages, so that whatever is written there takes no more than these.
CudaResult MemoryMap::Seal(uint64_t sink_bytes) {
  MutexLock lock(&mu_);
  if (sealed_ || zone_bytes_ == 0) return CudaResult::kNotSupported;
  const uint64_t base = base_.load();
  const uint64_t size = size_.load();
  bool filled = true;
  if (!sink_.valid()) {
    absl::StatusOr<UniqueFd> sink = NewSealedMemory("warpline-sink", sink_bytes);
    if (!sink.ok()) return CudaResult::kOutOfMemory;
    filled = FillWith(sink->get(), sink_bytes, base - zone_bytes_, base) &&
             FillWith(sink->get(), sink_bytes, base + size, base + size + zone_bytes_);
    if (!filled) return CudaResult::kOutOfMemory;
    sink_ = *std::move(sink);
    own_bytes_ += sink_bytes;
  }
  std::vector<bool> is_mapped;
  for (uint64_t g = 0; g < Granules(size); ++g) {
    is_mapped.push_back(granules_[g].load() != 0 || InChunk(base + g * kGranuleBytes));
  }
  for (uint64_t at = 0; filled && at < Granules(size);) {
    uint64_t end = at + 1;
    while (end < Granules(size) && is_mapped[end] == is_mapped[at]) ++end;
    if (!is_mapped[at]) {
      filled =
          FillWith(sink_.get(), sink_bytes, base + at * kGranuleBytes, base + end * kGranuleBytes);
      if (filled) SetGranules(at * kGranuleBytes, (end - at) * kGranuleBytes, kReads | kWrites);
    }
    at = end;
  }
  if (!filled) return CudaResult::kOutOfMemory;
  sealed_ = true;
  sealed_zone_bytes_.store(zone_bytes_, std::memory_order_release);
  return CudaResult::kSuccess;
}

CudaResult MemoryMap::Unseal() {
  MutexLock lock(&mu_);
  if (!sealed_) return CudaResult::kNotSupported;
  sealed_ = false;
  return CudaResult::kSuccess;
}

bool MemoryMap::InChunk(uint64_t va) const {
  const auto next = chunks_.upper_bound(va);
  return next != chunks_.begin() && va - std::prev(next)->first < std::prev(next)->second;
}

bool MemoryMap::FillWith(int fd, uint64_t bytes, uint64_t start, uint64_t end) {
  for (uint64_t at = start; at < end; at += bytes) {
    if (mmap(Pointer(at), std::min(end - at, bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             fd, 0) == MAP_FAILED) {
      return false;
    }
  }
  return true;
}

void MemoryMap::SetGranules(uint64_t offset, uint64_t bytes, uint8_t kinds) {
  for (uint64_t g = Granules(offset); g < Granules(offset + bytes); ++g) {
    granules_[g].store(kinds, std::memory_order_relaxed);
  }
}

// The mapping itself stays as it is: every access is checked by the granules.
CudaResult MemoryMap::SetChunkAccess(uint64_t va, uint64_t bytes, device::MemoryAccess access) {
  MutexLock lock(&mu_);
  if (sealed_) return CudaResult::kNotSupported;
  const auto it = chunks_.find(va);
  if (it == chunks_.end() || it->second != bytes) return CudaResult::kInvalidValue;
  SetGranules(va - base_.load(), bytes, static_cast<uint8_t>(access));
  return CudaResult::kSuccess;
}

CudaResult MemoryMap::UnmapChunk(uint64_t va, uint64_t bytes) {
  MutexLock lock(&mu_);
  if (sealed_) return CudaResult::kNotSupported;
  const auto it = chunks_.find(va);
  if (it == chunks_.end() || it->second != bytes) return CudaResult::kInvalidValue;
  const uint64_t offset = va - base_.load();
  SetGranules(offset, bytes, 0);
  chunks_.erase(it);
  if (mmap(Pointer(va), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
           -1, 0) == MAP_FAILED) {
    return CudaResult::kOperatingSystem;
  }
  return CudaResult::kSuccess;
}

CudaResult MemoryMap::AllocateRegion(uint64_t bytes, RegionUse use, uint64_t* address) {
  if (bytes == 0 || bytes > kMaxRegionBytes) return CudaResult::kOutOfMemory;
  bytes = (bytes + kRegionAlignment - 1) / kRegionAlignment * kRegionAlignment;
  MutexLock lock(&mu_);
  // The new region lies after all that were there, as long as the kernel has room there.
  if (next_region_ == 0) next_region_ = kRegionsStart;
  void* const at = mmap(Pointer(next_region_), bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return CudaResult::kOutOfMemory;
  *address = reinterpret_cast<uint64_t>(at);
  if (*address == next_region_) next_region_ += bytes;
  regions_[*address] = {bytes, use};
  return CudaResult::kSuccess;
}

CudaResult MemoryMap::MapRegion(uint64_t address, uint64_t bytes, int fd) {
  MutexLock lock(&mu_);
  void* const at = mmap(Pointer(address), bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
  if (at == MAP_FAILED) return CudaResult::kInvalidValue;
  if (at != Pointer(address)) {
    munmap(at, bytes);
    return CudaResult::kInvalidValue;
  }
  regions_[address] = {bytes, RegionUse::kHost};
  return CudaResult::kSuccess;
}

void MemoryMap::BorrowRegion(uint64_t address, uint64_t bytes) {
  MutexLock lock(&mu_);
  regions_[address] = {bytes, RegionUse::kWindow};
}

void MemoryMap::FreeRegion(uint64_t address) {
  MutexLock lock(&mu_);
  const auto it = regions_.find(address);
  if (it == regions_.end()) return;
  if (it->second.use != RegionUse::kWindow) munmap(Pointer(address), it->second.bytes);
  regions_.erase(it);
}

bool MemoryMap::InRegion(uint64_t address, uint64_t bytes) const {
  MutexLock lock(&mu_);
  auto it = regions_.upper_bound(address);
  if (it == regions_.begin()) return false;
  --it;
  const uint64_t offset = address - it->first;
  return offset <= it->second.bytes && bytes <= it->second.bytes - offset;
}

bool MemoryMap::FindVariables(uint64_t address, device::VariableBlock* block) {
  MutexLock lock(&mu_);
  auto it = regions_.upper_bound(address);
  if (it == regions_.begin()) return false;
  --it;
  const Region& region = it->second;
  if (region.use != RegionUse::kVariables || address - it->first >= region.bytes) return false;
  *block = {it->first, region.bytes, 0};
  return true;
}

}  // namespace warpline::cpu
