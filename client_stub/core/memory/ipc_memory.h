// Allocations that the processes of one lease share: those that this process offers, and those of
// others that it has opened (cuIpc*, and pointers of memory pools).
//
// An opened allocation is mapped in whole chunks, so the mapping may reach beyond the allocation.
#ifndef WARPLINE_CLIENT_STUB_CORE_MEMORY_IPC_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_MEMORY_IPC_MEMORY_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "client_stub/core/memory/virtual_memory.h"
#include "client_stub/session/memory_requests.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"

namespace warpline::stub {

// What one process tells another about an allocation.
struct OfferedAllocation {
  std::string token;
  uint64_t chunk_bytes = 0;  // The size of the chunks that the token opens.
  uint64_t offset = 0;       // Where the allocation begins in them.
  uint64_t bytes = 0;
  uint32_t device = 0;  // The device whose memory it is, by this session's numbers.
};

// Thread-safe.
class IpcMemory {
 public:
  // Both are borrowed and must outlive this object.
  IpcMemory(MemoryRequests* requests, VirtualMemory* memory)
      : requests_(requests), memory_(memory) {}

  // Offers the live allocation [base, base + bytes) of a device. `id` tells it from earlier
  // allocations there.
  CudaResult Offer(uint32_t device, uint64_t base, uint64_t bytes, uint64_t id,
                   OfferedAllocation* offered);

  // Works like cuIpcOpenMemHandle: an allocation that is open already keeps its address and has to
  // be closed as often as it was opened. kInvalidContext for an allocation of this process,
  // kInvalidValue for one that is not offered.
  CudaResult Open(const OfferedAllocation& offered, uint64_t* address);
  // Works like cuIpcCloseMemHandle: kInvalidValue for an address that Open() did not give.
  CudaResult Close(uint64_t address);

  // Finds the opened allocation that holds `address`; returns false when there is none.
  bool Find(uint64_t address, uint64_t* base, uint64_t* bytes) const;

 private:
  struct Offered {
    uint64_t id = 0;
    OfferedAllocation allocation;
  };
  struct Opened {
    uint64_t bytes = 0;
    uint64_t mapping = 0;  // Where the token's chunks are mapped.
    uint64_t uses = 0;
    std::string token;
  };

  MemoryRequests* const requests_;
  VirtualMemory* const memory_;

  // Held while an allocation is opened, so that none is opened twice. Taken before mu_.
  Mutex open_mu_;
  mutable Mutex mu_;
  absl::flat_hash_map<uint64_t, Offered> offered_ ABSL_GUARDED_BY(mu_);  // By address.
  std::map<uint64_t, Opened> opened_ ABSL_GUARDED_BY(mu_);               // By address.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MEMORY_IPC_MEMORY_H_
