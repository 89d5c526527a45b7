// A memory pool: its settings and the figures that CUDA reports for it.
//
// The memory of all pools comes from their device's part of the arena and follows the arena's rules
// (arena/allocator.h); no pool keeps memory for itself. The size that a pool reports as reserved is
// the size that CUDA's pool would keep.
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
  uint64_t max_bytes = 0;                 // 0: no bound.
  unsigned int handle_types = 0;          // CUmemAllocationHandleType: what it can be exported as.
  bool imported = false;                  // Another process's pool: nothing is allocated from it.
  std::atomic<int> reuse[3] = {1, 1, 1};  // Indexed by CUmemPool_attribute, less 1.

  // The other devices that were given access, one bit for each. Every device can access what it is
  // able to.
  std::atomic<uint32_t> shared_with{0};
  bool AccessibleTo(const Device& accessing) const;

  // Counts an allocation of `bytes`. Returns false when the pool may not hold so much.
  bool Take(uint64_t bytes);
  void Give(uint64_t bytes);
  // Gives unused memory back until `keep` bytes stay reserved.
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

  // Returns the token under which the pool is shared; empty until it is.
  std::string share_token() const;
  // When two threads share the pool at the same time, the first one's token holds. Returns the
  // token that holds.
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
