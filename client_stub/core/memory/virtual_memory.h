// Memory that the application maps by itself (cuMemCreate, cuMemMap and their family): the address
// ranges that it reserved, its handles, and which handle is mapped where.
//
// All of it is decided here, from what this process knows. Handles come from the server, several at
// a time once a program makes many; mapping, access and unmapping are one-way commands. A handle
// that is neither mapped nor referred to any more is kept, within bounds, for the next one of its
// size.
//
// Running work may still use memory that was unmapped. The worker undoes a mapping when that work
// has retired and reports it; until then neither the addresses nor the handle are used again or
// returned.
#ifndef WARPLINE_CLIENT_STUB_CORE_MEMORY_VIRTUAL_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_MEMORY_VIRTUAL_MEMORY_H_

#include <array>
#include <atomic>
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
#include "proto/guard.h"

namespace warpline::stub {

// Thread-safe. Lock order: create_mu_, mu_, done_mu_.
class VirtualMemory {
 public:
  // The values of CUmemAccess_flags.
  static constexpr uint32_t kNoAccess = 0;
  static constexpr uint32_t kReadWrite = 3;

  // The access of each device, by its number.
  using AccessByDevice = std::array<uint8_t, kMaxSessionDevices>;

  // All are borrowed and must outlive this object. `allocators` holds each device's, by number.
  VirtualMemory(Session* session, std::vector<Allocator*> allocators);
  ~VirtualMemory();

  // Work like the driver calls of the same names, with their errors. Any device's memory may be
  // mapped at any addresses: `device` only says whose part of the arena the addresses are taken
  // from, if it has enough.
  CudaResult Reserve(uint32_t device, uint64_t bytes, uint64_t alignment, uint64_t wanted,
                     uint64_t* address);
  CudaResult FreeAddresses(uint64_t address, uint64_t bytes);
  CudaResult Create(uint32_t device, uint64_t bytes, uint64_t handle_types, uint64_t* handle);
  CudaResult Release(uint64_t handle);
  CudaResult Retain(uint64_t address, uint64_t* handle);
  CudaResult Map(uint64_t address, uint64_t bytes, uint64_t handle);
  CudaResult Unmap(uint64_t address, uint64_t bytes);
  // Sets the access of one device; others keep theirs.
  CudaResult SetAccess(uint64_t address, uint64_t bytes, uint32_t device, uint32_t access);

  // Finds the CUmemAllocationHandleTypes that a handle was made for; returns false for a number
  // that is no handle.
  bool FindHandle(uint64_t handle, uint64_t* handle_types);

  struct Mapping {
    uint64_t base = 0;
    uint64_t bytes = 0;
    AccessByDevice access = {};
    uint64_t handle = 0;  // Its number tells the device.
    uint64_t handle_types = 0;
    uint64_t id = 0;  // Unique to the mapping.
  };
  // Finds the mapping that holds `address`; returns false when there is none.
  bool Find(uint64_t address, Mapping* mapping) const;
  // All mappings, and how often they have changed.
  std::vector<CheckedRange> MappedRanges() const;
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  // Returns true when [address, address + bytes) lies in mappings, without gaps, that some device
  // may access.
  bool Contains(uint64_t address, uint64_t bytes) const;

  // Work like cuMemExportToShareableHandle and cuMemImportFromShareableHandle. The descriptor
  // stands for the handle. The memory stays for as long as a copy of the descriptor is open
  // anywhere.
  CudaResult Export(uint64_t handle, UniqueFd* descriptor);
  CudaResult Import(int descriptor, uint64_t* handle);

  // Opens `bytes` of a device's memory that another session offers, and maps them. CloseShared()
  // undoes that.
  CudaResult OpenShared(uint32_t device, const std::string& token, uint64_t bytes,
                        uint64_t* address);
  CudaResult CloseShared(uint64_t address);

  // Gives back a device's handles that are kept for later, because other uses need the memory.
  void ReturnUnused(uint32_t device);

 private:
  using Kind = std::pair<uint32_t, uint64_t>;  // Of a handle: its device and its size.
  struct Handle {
    uint64_t bytes = 0;
    uint64_t handle_types = 0;
    uint64_t references = 0;  // Held by the application.
    uint64_t mapped = 0;
    uint64_t leaving = 0;  // Mappings that are being undone.
    bool charged = false;
    bool opened = false;             // The memory is another session's.
    std::string token;               // Set once it is offered.
    std::vector<UniqueFd> exported;  // Our ends; closed when no copy of the other is open.
  };
  struct Mapped {
    uint64_t bytes = 0;
    uint64_t handle = 0;
    uint64_t id = 0;
    AccessByDevice access = {};
    bool sent = false;  // The worker knows it: from the first access on.
    // The access that the worker was told: the most that any device has.
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

  // Takes a handle from those that are kept, else from the server.
  CudaResult Obtain(const Kind& kind, uint64_t* handle);
  bool TakeKept(const Kind& kind, uint64_t* handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  CudaResult Ask(const Kind& kind, uint64_t* handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(create_mu_);
  // Returns the first of `count` new handles, which follow each other.
  uint64_t NewHandle(uint32_t device, uint64_t count = 1) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddHandle(uint64_t handle, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Notes what the worker has unmapped, and which descriptors were closed.
  void Collect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CollectExports() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Keeps the handle for later, or gives it back, if it has lost its last use.
  void Settle(uint64_t handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits for the mappings that are being undone, and for all other work under way.
  CudaResult WaitForUnmaps();
  // Returns the mappings that make up exactly [address, address + bytes); empty when there are none
  // such.
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

  // Held by the one thread that asks the server for handles.
  Mutex create_mu_;

  mutable Mutex mu_;
  Reservations reservations_ ABSL_GUARDED_BY(mu_);
  Mappings mappings_ ABSL_GUARDED_BY(mu_);
  std::atomic<uint64_t> changes_{0};  // Of mappings_
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

  // Tokens that the worker has reported. The session's loop writes them.
  Mutex done_mu_;
  std::vector<uint64_t> done_ ABSL_GUARDED_BY(done_mu_);
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MEMORY_VIRTUAL_MEMORY_H_
