// The host memory that the application may copy to and from asynchronously: what cuMemHostAlloc and
// cuMemAllocHost gave it and what it registered itself.
//
// What a pinned range means here is that a copy to it need not be waited for, so the ranges also
// remember until when one may still be under way. The device reaches those that have a mirror
// (mirrored_memory.h).
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
    uint64_t last_copy = 0;  // Number of the latest copy to it that was not waited for.
    // What such copies wrote to lies in here.
    uint64_t copied_begin = ~uint64_t{0};
    uint64_t copied_end = 0;
    bool kept = false;    // It is none of ours to give back.
    bool shared = false;  // Host and device have one memory (shared_host_memory.h).
    uint64_t device = 0;  // Its address there; 0 while nobody asked for one.
    uint32_t owner = 0;   // The device that was current when it was allocated or registered.
  };

  // Page-aligned zeroed memory; nullptr for 0 bytes. CUDA_ERROR_OUT_OF_MEMORY when the system has
  // none.
  CUresult Allocate(uint64_t bytes, unsigned int flags, void** base);
  // The same with memory that is somebody else's, who gives it back.
  void Add(void* base, uint64_t bytes, unsigned int flags, uint64_t device, bool shared);
  void SetOwner(void* base, uint32_t owner);
  // The device has the range that starts at `base`, too.
  void SetDevice(void* base, uint64_t device);
  // CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED when it overlaps a range.
  CUresult Register(void* base, uint64_t bytes, unsigned int flags);

  // The range that holds `address`; false when there is none.
  bool Find(const void* address, Range* range) const;
  // True when [address, address + bytes) lies in one range.
  bool Contains(const void* address, uint64_t bytes) const;
  // Copy `seq` writes to [address, address + bytes), which is in one range, and is not waited for.
  void NoteCopy(const void* address, uint64_t bytes, uint64_t seq);

  // Forgets the range that starts at `base`, and gives its memory back if Allocate() gave it.
  // Nothing may be on its way there any more. Returns false if there is no such range.
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
