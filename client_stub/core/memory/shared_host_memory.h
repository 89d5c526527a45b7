// Page-locked host memory that client and worker share: the same memory at the same address in both
// processes and on the device. It exists only where the server is on this host; elsewhere memory is
// mirrored where that is necessary.
#ifndef WARPLINE_CLIENT_STUB_CORE_MEMORY_SHARED_HOST_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_MEMORY_SHARED_HOST_MEMORY_H_

#include <cstdint>
#include <map>

#include "client_stub/core/memory/address_ranges.h"
#include "client_stub/session/memory_requests.h"
#include "client_stub/session/session_terms.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe.
class SharedHostMemory {
 public:
  // Both are borrowed. Without `allowed` there is no such memory.
  SharedHostMemory(const SessionTerms& terms, MemoryRequests* memory, bool allowed)
      : terms_(terms), memory_(memory), tried_(!allowed) {}

  // Whether the session has it as staging alone.
  bool only_staging() const { return terms_.HasAllMemory(); }

  // Allocates zeroed whole pages. kNotSupported where there is no such memory, kOutOfMemory beyond
  // the server's bound.
  CudaResult Allocate(uint64_t bytes, uint64_t* address);
  // The same, apart from other memory, and the bytes there outlive the session.
  CudaResult AllocateForProgram(uint64_t bytes, uint64_t* address);
  // Allocates for bytes on their way: as much as the server likes, up to `most`, where it is asked
  // for `bytes`; `*got` tells how much. It cannot be freed. A session of the guarded tier has no
  // other memory of this kind.
  CudaResult AllocateStaging(uint64_t bytes, uint64_t most, uint64_t* address, uint64_t* got);
  // Frees memory from Allocate() that no work under way uses any more.
  void Free(uint64_t address);

 private:
  struct Segment {
    uint64_t bytes = 0;
    uint64_t used = 0;
    bool whole = false;  // One allocation has all of it.
  };

  bool Reserve() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CudaResult AddSegment(HostSharing what, uint64_t bytes, uint64_t* address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Adds a segment for one allocation.
  CudaResult AllocateWhole(HostSharing what, uint64_t bytes, uint64_t* address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SessionTerms& terms_;
  MemoryRequests* const memory_;
  Mutex mu_;
  bool tried_ ABSL_GUARDED_BY(mu_);
  bool there_ ABSL_GUARDED_BY(mu_) = false;                    // The addresses are reserved.
  bool refused_ ABSL_GUARDED_BY(mu_) = false;                  // There is none but for staging.
  AddressRanges addresses_ ABSL_GUARDED_BY(mu_);               // Without a segment.
  AddressRanges free_ ABSL_GUARDED_BY(mu_);                    // In segments for small allocations.
  std::map<uint64_t, Segment> segments_ ABSL_GUARDED_BY(mu_);  // By address.
  std::map<uint64_t, uint64_t> allocated_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MEMORY_SHARED_HOST_MEMORY_H_
