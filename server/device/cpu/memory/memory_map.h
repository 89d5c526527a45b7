// The memory of one context: the arena of chunks, and the variables of loaded modules.
//
// A device address is the address of the byte in this process, so an access needs nothing but a
// check. Thread-safe. Checks within the arena take no lock.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MEMORY_MEMORY_MAP_H_
#define WARPLINE_SERVER_DEVICE_CPU_MEMORY_MEMORY_MAP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "server/device/facets/types.h"
#include "server/device/gate/address_gate.h"

namespace warpline::cpu {

inline constexpr uint64_t kGranuleBytes = uint64_t{2} << 20;
inline constexpr int kGranuleShift = 21;

// Bits for the ways of using memory.
enum AccessKind : uint8_t { kReads = 1, kWrites = 2 };

// What memory outside the arena is for. Kernels reach all of it, commands all but the last.
enum class RegionUse : uint8_t { kVariables, kHost, kWindow, kKernels };

class MemoryMap : public device::MemoryFacts {
 public:
  MemoryMap() = default;
  MemoryMap(const MemoryMap&) = delete;
  MemoryMap& operator=(const MemoryMap&) = delete;
  // Unmaps everything. No access may be under way.
  ~MemoryMap() override;

  // These do what device::Memory says. The zones beside the arena that Seal() needs have
  // `zone_bytes` each.
  CudaResult ReserveArena(uint64_t base, uint64_t size, uint64_t zone_bytes = 0);
  CudaResult MapChunk(uint64_t va, uint64_t bytes, int fd);
  CudaResult MapSink(uint64_t va, uint64_t bytes);
  CudaResult UnmapChunk(uint64_t va, uint64_t bytes);
  CudaResult SetChunkAccess(uint64_t va, uint64_t bytes, device::MemoryAccess access);
  // All sinks together are `sink_bytes`, mapped again and again; small ones use up the mappings
  // that a process may have.
  CudaResult Seal(uint64_t sink_bytes);
  CudaResult Unseal();
  uint64_t own_bytes() const { return own_bytes_.load(std::memory_order_relaxed); }

  // Makes `bytes` of zeroed memory outside the arena accessible.
  CudaResult AllocateRegion(uint64_t bytes, RegionUse use, uint64_t* address);
  // Makes the file behind `fd`, which is the host's, accessible at `address`, where nothing may lie
  // yet.
  CudaResult MapRegion(uint64_t address, uint64_t bytes, int fd);
  // Makes memory of the host accessible that stays somebody else's and outlives this.
  void BorrowRegion(uint64_t address, uint64_t bytes);
  void FreeRegion(uint64_t address);

  // For the gate.
  bool IsMapped(uint64_t address, uint64_t bytes, device::MemoryUse use) override {
    return InArena(address, bytes, use == device::MemoryUse::kWrite ? kWrites : kReads);
  }
  bool FindVariables(uint64_t address, device::VariableBlock* block) override;

  // True when every byte of [address, address + bytes) may be accessed in this way.
  bool Contains(uint64_t address, uint64_t bytes, AccessKind kind = kReads) const {
    return InArena(address, bytes, kind) || InZone(address, bytes) || InRegion(address, bytes);
  }

  bool InArena(uint64_t address, uint64_t bytes, AccessKind kind = kReads) const {
    const uint64_t offset = address - base_.load(std::memory_order_relaxed);
    const uint64_t size = size_.load(std::memory_order_acquire);
    if (offset >= size || bytes > size - offset) return false;
    if (bytes == 0) return true;
    const uint64_t last = (offset + bytes - 1) >> kGranuleShift;
    for (uint64_t granule = offset >> kGranuleShift; granule <= last; ++granule) {
      if ((granules_[granule].load(std::memory_order_relaxed) & kind) == 0) return false;
    }
    return true;
  }

  bool InRegion(uint64_t address, uint64_t bytes) const;
  // True in the zones of a sealed arena. Kernels reach them, and commands do not.
  bool InZone(uint64_t address, uint64_t bytes) const {
    const uint64_t zone = sealed_zone_bytes_.load(std::memory_order_acquire);
    if (zone == 0 || bytes > zone) return false;
    const uint64_t base = base_.load(std::memory_order_relaxed);
    const uint64_t end = base + size_.load(std::memory_order_relaxed);
    return address - (base - zone) <= zone - bytes || address - end <= zone - bytes;
  }

 private:
  struct Region {
    uint64_t bytes = 0;
    RegionUse use = RegionUse::kKernels;
  };

  mutable Mutex mu_;
  std::atomic<uint64_t> base_{0};
  std::atomic<uint64_t> size_{0};  // Set last: the arena exists once this is not zero.
  std::atomic<uint64_t> own_bytes_{0};
  std::atomic<uint64_t> sealed_zone_bytes_{0};    // Set last: the zones are mapped then.
  uint64_t zone_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // As they are reserved
  bool sealed_ ABSL_GUARDED_BY(mu_) = false;
  UniqueFd sink_ ABSL_GUARDED_BY(mu_);  // The pages of all sinks, from the first Seal() on.
  bool InChunk(uint64_t va) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Maps the `bytes` of `fd` all over [start, end), from its beginning again and again.
  static bool FillWith(int fd, uint64_t bytes, uint64_t start, uint64_t end);
  // Returns kNotSupported once sealed, and kInvalidValue unless the range consists of granules of
  // the arena without a chunk.
  CudaResult CheckFree(uint64_t va, uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetGranules(uint64_t offset, uint64_t bytes, uint8_t kinds);

  // One byte for each granule: the kinds of access that it allows. The bytes come from mmap, so
  // they are zero and only those in use are touched.
  std::atomic<uint8_t>* granules_ = nullptr;
  std::map<uint64_t, uint64_t> chunks_ ABSL_GUARDED_BY(mu_);  // Address -> bytes
  std::map<uint64_t, Region> regions_ ABSL_GUARDED_BY(mu_);   // By address
  uint64_t next_region_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MEMORY_MEMORY_MAP_H_
