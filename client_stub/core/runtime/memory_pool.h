// A memory pool: its settings and what CUDA tells of it.
//
// Memory of all pools comes from their device's part of the arena, by its rules
// (arena/allocator.h); no pool holds any back. What a pool reports as reserved is what CUDA's would
// hold.
#ifndef WARPLINE_CLIENT_STUB_CORE_RUNTIME_MEMORY_POOL_H_
#define WARPLINE_CLIENT_STUB_CORE_RUNTIME_MEMORY_POOL_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "client_stub/core/base/cuda_api.h"
#include "common/mutex.h"

namespace warpline::stub {

struct Device;

// Thread-safe. Plain members are set before the handle becomes valid.
struct MemoryPool {
  CUmemoryPool handle = nullptr;
  Device* device = nullptr;
  uint64_t max_bytes = 0;                 // 0: as much as there is.
  unsigned int handle_types = 0;          // CUmemAllocationHandleType: what it can be exported as.
  bool imported = false;                  // Another process's: nothing is allocated from it.
  std::atomic<int> reuse[3] = {1, 1, 1};  // By CUmemPool_attribute, from 1.

  // Other devices that were given access, a bit for each. All can access what they are able to.
  std::atomic<uint32_t> shared_with{0};
  bool AccessibleTo(const Device& accessing) const;

  // False when the pool may not hold so much.
  bool Take(uint64_t bytes);
  void Give(uint64_t bytes);
  // Gives back what is not used, down to `keep` bytes.
  void Trim(uint64_t keep);

  uint64_t release_threshold() const;
  void set_release_threshold(uint64_t bytes);

  struct Usage {
    uint64_t used = 0;
    uint64_t used_high = 0;
    uint64_t reserved = 0;
    uint64_t reserved_high = 0;
  };
  Usage usage() const;
  void ResetUsedHigh();
  void ResetReservedHigh();

  // The token under which it is shared; empty until it is.
  std::string share_token() const;
  // Of two threads that share it at once, the first one's holds. Returns what holds.
  std::string SetShareToken(const std::string& token);
  void ResetShareToken(const std::string& token);

 private:
  void TrimLocked(uint64_t keep) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  uint64_t release_threshold_ ABSL_GUARDED_BY(mu_) = 0;
  Usage usage_ ABSL_GUARDED_BY(mu_);
  std::string share_token_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_RUNTIME_MEMORY_POOL_H_
