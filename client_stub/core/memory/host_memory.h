// Page-locked host memory, to and from which the application may copy asynchronously: the ranges
// that cuMemHostAlloc and cuMemAllocHost gave it, and those that it registered itself.
//
// Here, page-locked means only that a copy to the range need not be waited for, so each range also
// remembers until when such a copy may be under way. The device reaches the ranges that it shares
// (shared_host_memory.h, registered_memory.h) and those that have a mirror (mirrored_memory.h).
#ifndef WARPLINE_CLIENT_STUB_CORE_MEMORY_HOST_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_MEMORY_HOST_MEMORY_H_

#include <cstdint>
#include <map>

#include "client_stub/core/base/cuda_api.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe.
class HostMemory {
 public:
  struct Range {
    void* base = nullptr;
    uint64_t bytes = 0;
    unsigned int flags = 0;
    bool registered = false;  // The application's own memory.
    uint64_t id = 0;
    uint64_t last_copy = 0;  // The number of the latest copy to it that was not waited for.
    // All that such copies wrote to lies in [copied_begin, copied_end).
    uint64_t copied_begin = ~uint64_t{0};
    uint64_t copied_end = 0;
    bool kept = false;    // The memory is not given back here.
    bool shared = false;  // Host and device have one memory (shared_host_memory.h).
    uint64_t device = 0;  // Its address on the device; 0 until it is asked for.
    uint32_t owner = 0;   // The device that was current when it was allocated or registered.
  };

  // Allocates page-aligned zeroed memory; gives nullptr for 0 bytes. CUDA_ERROR_OUT_OF_MEMORY when
  // the system has none.
  CUresult Allocate(uint64_t bytes, unsigned int flags, void** base);
  // Adds memory that the caller allocated and gives back itself.
  void Add(void* base, uint64_t bytes, unsigned int flags, uint64_t device, bool shared);
  void SetOwner(void* base, uint32_t owner);
  // Notes that the device has the range that starts at `base`, at `device`.
  void SetDevice(void* base, uint64_t device);
  // Adds the application's own memory. CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED when it overlaps a
  // range.
  CUresult Register(void* base, uint64_t bytes, unsigned int flags);

  // Finds the range that holds `address`; returns false when there is none.
  bool Find(const void* address, Range* range) const;
  // Returns true when [address, address + bytes) lies in one range.
  bool Contains(const void* address, uint64_t bytes) const;
  // Notes that copy `seq` writes to [address, address + bytes), which lies in one range, and is not
  // waited for.
  void NoteCopy(const void* address, uint64_t bytes, uint64_t seq);

  // Forgets the range that starts at `base`, and frees its memory if Allocate() gave it. No copy to
  // it may be under way any more. Returns false if there is no such range.
  bool Remove(void* base);

 private:
  std::map<uint64_t, Range>::const_iterator FindLocked(const void* address) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  std::map<uint64_t, Range> ranges_ ABSL_GUARDED_BY(mu_);  // By address.
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MEMORY_HOST_MEMORY_H_
