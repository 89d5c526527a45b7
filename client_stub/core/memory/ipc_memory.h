// Allocations that processes of one lease share: those of this process that it offers, and those of
// others that it has opened (cuIpc*, and pointers of memory pools).
//
// What is opened is mapped chunk by chunk, so that the mapping reaches beyond the allocation.
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

// What one process tells another of an allocation.
struct OfferedAllocation {
  std::string token;
  uint64_t chunk_bytes = 0;  // Of what the token opens.
  uint64_t offset = 0;       // Of the allocation therein.
  uint64_t bytes = 0;
  uint32_t device = 0;  // Whose memory it is, by this session's numbers.
};

// Thread-safe.
class IpcMemory {
 public:
  // Both are borrowed and must outlive this object.
  IpcMemory(MemoryRequests* requests, VirtualMemory* memory)
      : requests_(requests), memory_(memory) {}

  // Of the live allocation [base, base + bytes) of a device, whose id tells it from earlier ones
  // there.
  CudaResult Offer(uint32_t device, uint64_t base, uint64_t bytes, uint64_t id,
                   OfferedAllocation* offered);

  // As cuIpcOpenMemHandle: what is open already is at the same address and has to be closed as
  // often. kInvalidContext for an allocation of this process, kInvalidValue for what nobody offers.
  CudaResult Open(const OfferedAllocation& offered, uint64_t* address);
  // As cuIpcCloseMemHandle: kInvalidValue for what was not opened.
  CudaResult Close(uint64_t address);

  // The opened allocation that holds `address`; false when there is none.
  bool Find(uint64_t address, uint64_t* base, uint64_t* bytes) const;

 private:
  struct Offered {
    uint64_t id = 0;
    OfferedAllocation allocation;
  };
  struct Opened {
    uint64_t bytes = 0;
    uint64_t mapping = 0;  // Where what the token opens is mapped.
    uint64_t uses = 0;
    std::string token;
  };

  MemoryRequests* const requests_;
  VirtualMemory* const memory_;

  // Held while something is opened, so that nothing is twice. Before mu_.
  Mutex open_mu_;
  mutable Mutex mu_;
  absl::flat_hash_map<uint64_t, Offered> offered_ ABSL_GUARDED_BY(mu_);  // By address.
  std::map<uint64_t, Opened> opened_ ABSL_GUARDED_BY(mu_);               // By address.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MEMORY_IPC_MEMORY_H_
