// Memory that the application maps by itself (cuMemCreate, cuMemMap and their family): which
// address ranges it reserved, which handles it has, and which handle is mapped where.
//
// All of it is decided here, from what this process knows. Handles come from the server, several at
// a time once a program makes many; mapping, access and unmapping are one-way commands. A handle
// that is no longer mapped or referred to is kept for the next one of its size, within bounds.
//
// What was unmapped may still be in use by running work. The worker undoes a mapping when that has
// retired and says so; until then its addresses and its handle are neither used again nor returned.
#ifndef WARPLINE_CLIENT_STUB_CORE_MEMORY_VIRTUAL_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_MEMORY_VIRTUAL_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client_stub/arena/allocator.h"
#include "client_stub/session/session.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "common/unique_fd.h"
#include "proto/devices.h"

namespace warpline::stub {

// Thread-safe. Lock order: create_mu_, mu_, done_mu_.
class VirtualMemory {
 public:
  // As CUmemAccess_flags.
  static constexpr uint32_t kNoAccess = 0;
  static constexpr uint32_t kReadWrite = 3;

  // What each device may do, by its number.
  using AccessByDevice = std::array<uint8_t, kMaxSessionDevices>;

  // All are borrowed and must outlive this object. `allocators`: of each device.
  VirtualMemory(Session* session, std::vector<Allocator*> allocators);
  ~VirtualMemory();

  // As the driver calls of the same names, with their errors. Any device's memory may be mapped at
  // any addresses: `device` only says where they are taken from, if there are enough.
  CudaResult Reserve(uint32_t device, uint64_t bytes, uint64_t alignment, uint64_t wanted,
                     uint64_t* address);
  CudaResult FreeAddresses(uint64_t address, uint64_t bytes);
  CudaResult Create(uint32_t device, uint64_t bytes, uint64_t handle_types, uint64_t* handle);
  CudaResult Release(uint64_t handle);
  CudaResult Retain(uint64_t address, uint64_t* handle);
  CudaResult Map(uint64_t address, uint64_t bytes, uint64_t handle);
  CudaResult Unmap(uint64_t address, uint64_t bytes);
  // Of one device; others keep what they may do.
  CudaResult SetAccess(uint64_t address, uint64_t bytes, uint32_t device, uint32_t access);

  // The CUmemAllocationHandleTypes that a handle was made for; false for what is no handle.
  bool FindHandle(uint64_t handle, uint64_t* handle_types);

  struct Mapping {
    uint64_t base = 0;
    uint64_t bytes = 0;
    AccessByDevice access = {};
    uint64_t handle = 0;  // Which says whose memory it is.
    uint64_t handle_types = 0;
    // Of the reserved range around it.
    uint64_t reserved_base = 0;
    uint64_t reserved_bytes = 0;
    uint64_t id = 0;  // Unique to the mapping.
  };
  // The mapping that holds `address`; false where there is none.
  bool Find(uint64_t address, Mapping* mapping) const;
  // True when [address, address + bytes) lies in mappings, without gaps, that some device may
  // access.
  bool Contains(uint64_t address, uint64_t bytes) const;

  // As cuMemExportToShareableHandle and the reverse: a descriptor that stands for the handle. The
  // memory stays for as long as a copy of the descriptor is open anywhere.
  CudaResult Export(uint64_t handle, UniqueFd* descriptor);
  CudaResult Import(int descriptor, uint64_t* handle);

  // Opens `bytes` of memory of a device that another session offers and maps it. CloseShared()
  // undoes that.
  CudaResult OpenShared(uint32_t device, const std::string& token, uint64_t bytes,
                        uint64_t* address);
  CudaResult CloseShared(uint64_t address);

  // Gives a device's handles back that are kept for later: others need the memory.
  void ReturnUnused(uint32_t device);

 private:
  using Kind = std::pair<uint32_t, uint64_t>;  // Of handles: the device, and the size.
  struct Handle {
    uint64_t bytes = 0;
    uint64_t handle_types = 0;
    uint64_t references = 0;  // The application's.
    uint64_t mapped = 0;
    uint64_t leaving = 0;  // Mappings that are being undone.
    bool charged = false;
    bool opened = false;             // Another session's memory.
    std::string token;               // Once it is offered.
    std::vector<UniqueFd> exported;  // Our ends; each ends when no copy of the other is open.
  };
  struct Mapped {
    uint64_t bytes = 0;
    uint64_t handle = 0;
    uint64_t id = 0;
    AccessByDevice access = {};
    bool sent = false;  // The worker has it: from the first access on.
    // What it was told: as much as any device may do.
    uint32_t access_sent = kNoAccess;
  };
  struct Leaving {
    uint64_t va = 0;
    uint64_t handle = 0;
  };
  struct Reservation {
    uint64_t bytes = 0;
    size_t leaving = 0;
    bool freed = false;  // By the application; it goes when nothing is leaving any more.
  };
  using Mappings = std::map<uint64_t, Mapped>;
  using Reservations = std::map<uint64_t, Reservation>;

  // From what is kept, else from the server.
  CudaResult Obtain(const Kind& kind, uint64_t* handle);
  bool TakeKept(const Kind& kind, uint64_t* handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CudaResult Ask(const Kind& kind, uint64_t* handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(create_mu_);
  // For `count` handles from it on.
  uint64_t NewHandle(uint32_t device, uint64_t count = 1) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddHandle(uint64_t handle, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes note of what the worker has unmapped, and of descriptors that were closed.
  void Collect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CollectExports() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A handle may have lost its last use.
  void Settle(uint64_t handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits for what is leaving, and for everything else under way.
  CudaResult WaitForUnmaps();
  // The mappings that make up exactly [address, address + bytes); empty when they do not.
  std::vector<Mappings::iterator> Whole(uint64_t address, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Reservations::iterator ReservationOf(uint64_t address, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AnyMapped(uint64_t address, uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AnyLeaving(uint64_t address, uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Mappings::const_iterator MappingAt(uint64_t address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CudaResult Send(Mappings::iterator mapping) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Allocator* AllocatorAt(uint64_t address) const;
  Allocator* AllocatorOf(uint64_t handle) const { return allocators_[DeviceOfHandle(handle)]; }
  CudaResult OfferedToken(uint64_t handle, std::string* token, uint64_t* bytes);

  const SessionTerms& terms_;
  Commands* const commands_;
  SessionStatus* const status_;
  MemoryRequests* const memory_;
  Notices* const notices_;
  const std::vector<Allocator*> allocators_;  // By device.

  // Held by the one thread that gets more handles.
  Mutex create_mu_;

  mutable Mutex mu_;
  Reservations reservations_ ABSL_GUARDED_BY(mu_);
  Mappings mappings_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, Handle> handles_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, Leaving> leaving_ ABSL_GUARDED_BY(mu_);  // By token.
  std::map<uint64_t, uint64_t> leaving_ranges_ ABSL_GUARDED_BY(mu_);     // Address -> bytes.
  std::vector<uint64_t> exported_ ABSL_GUARDED_BY(mu_);                  // Handles.
  std::map<Kind, std::vector<uint64_t>> kept_ ABSL_GUARDED_BY(mu_);
  std::map<Kind, uint64_t> ask_count_ ABSL_GUARDED_BY(create_mu_);
  uint64_t kept_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t next_handle_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t next_token_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;

  // Tokens that the worker has reported; written by the session's loop.
  Mutex done_mu_;
  std::vector<uint64_t> done_ ABSL_GUARDED_BY(done_mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MEMORY_VIRTUAL_MEMORY_H_
