// Which device addresses this process may name: its allocations, with the context that each belongs
// to, and the variables of its modules.
//
// Calls check their device pointers here before anything is sent, so that a wrong pointer is the
// caller's error at once and not a fault of the device later.
#ifndef WARPLINE_CLIENT_STUB_CORE_MEMORY_DEVICE_MEMORY_H_
#define WARPLINE_CLIENT_STUB_CORE_MEMORY_DEVICE_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client_stub/arena/allocator.h"
#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/memory/ipc_memory.h"
#include "client_stub/core/memory/virtual_memory.h"
#include "client_stub/core/runtime/objects.h"
#include "client_stub/session/session_terms.h"
#include "common/mutex.h"
#include "proto/guard.h"

namespace warpline::stub {

// Thread-safe.
class DeviceMemory {
 public:
  // All are borrowed and must outlive this object. `allocators` holds each device's, by number.
  DeviceMemory(const SessionTerms& terms, std::vector<Allocator*> allocators,
               VirtualMemory* virtual_memory, IpcMemory* ipc_memory);

  // Work like cuMemAlloc and cuMemFree; Allocate() takes memory of the device with that number.
  CUresult Allocate(uint32_t device, const Context* context, uint64_t bytes, uint64_t* address);
  CUresult Free(uint64_t address);
  // Work like cuMemAllocFromPoolAsync and cuMemFreeAsync; `stream` is the wire's number.
  CUresult AllocateAsync(uint32_t device, const Context* context, MemoryPool* pool, uint64_t bytes,
                         uint64_t stream, uint64_t* address);
  CUresult FreeAsync(uint64_t address, uint64_t stream);
  // Sets CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of the allocation that holds `address`; returns false
  // when there is none. The value is only stored for queries: in CUDA it orders copies for devices
  // that write to each other's memory.
  bool SetSyncMemops(uint64_t address, bool value);
  // Frees everything that `context` still has allocated.
  void FreeAllOf(const Context* context);

  // Adds a module's variable at [address, address + bytes) or, without a module, host memory that
  // every device has at the same address.
  void AddGlobal(uint32_t device, const Module* module, uint64_t address, uint64_t bytes);
  void ForgetGlobal(uint64_t address);
  // Asks the server for the memory of modules in which `address` lies, unless it is known or the
  // address cannot be there: in a module, what has no name, such as a text that a kernel points to,
  // is memory of the device, too. One round trip; an address that this process has mapped itself
  // is the process's, and is not asked about. Returns true when something new is known.
  bool LearnBlock(uint64_t address);
  void ForgetGlobalsOf(const Module* module);

  // Returns true when [address, address + bytes) lies in one live allocation, in memory that the
  // application mapped, in one variable, or in a block that LearnBlock() has found.
  bool Contains(uint64_t address, uint64_t bytes) const;
  // Returns true when `address` lies in the arena, which this process reserves but cannot access.
  bool InArena(uint64_t address) const { return address - arena_base_ < arena_bytes_; }
  // Returns true when the value of `address` shows that it is the device's: it lies inside the
  // arena, and not in memory that is the host's alone (host_memory.h), or it lies in a variable or
  // in a block that LearnBlock() has found.
  bool IsDevice(uint64_t address) const;

  // How often what Ranges() returns has changed.
  uint64_t changes() const {
    return changes_.load(std::memory_order_acquire) + virtual_memory_->changes();
  }
  // All that a kernel may use, in the order of the addresses: live allocations with the sizes that
  // were asked for, mapped memory, variables that were looked up, host memory that devices reach.
  std::vector<CheckedRange> Ranges() const;

  struct Range {
    uint64_t base = 0;
    uint64_t bytes = 0;
    uint64_t id = 0;  // Unique to the allocation; 0 for a variable or block.
    uint32_t device = 0;
    bool sync_memops = false;
    const MemoryPool* pool = nullptr;  // nullptr unless it came from a pool.
    const Context* context = nullptr;  // nullptr for a variable and for mapped memory.
    // What CU_POINTER_ATTRIBUTE_MAPPING_* answer: the same as `base` and `bytes`.
    uint64_t mapping_base = 0;
    uint64_t mapping_bytes = 0;
    bool mapped = false;  // Mapped by the application, which set `access`.
    VirtualMemory::AccessByDevice access = {};
    uint64_t handle_types = 0;  // CUmemAllocationHandleType
    bool ipc_capable = false;   // cuIpcGetMemHandle takes it.
  };
  // Finds the allocation, block or variable that holds `address`; returns false when there is none.
  bool Find(uint64_t address, Range* range) const;

 private:
  struct Owner {
    const Context* context;
    uint64_t id;
    MemoryPool* pool;
    uint64_t bytes;
    bool sync_memops = false;
  };
  struct Global {
    uint64_t bytes;
    const Module* module;
    uint32_t device;
  };

  void NoteChange() { changes_.fetch_add(1, std::memory_order_release); }
  void NoteAllocated(const Context* context, MemoryPool* pool, uint64_t address, uint64_t bytes);
  void NoteFreed(uint64_t address);
  bool FindMapped(uint64_t address, Range* range) const;
  // Returns the device whose part of the arena holds `address`; the first one for addresses outside
  // all parts.
  uint32_t DeviceOf(uint64_t address) const;
  Allocator* AllocatorOf(uint64_t address) const { return allocators_[DeviceOf(address)]; }
  using Globals = std::map<uint64_t, Global>;  // By address.
  static const Global* FindIn(const Globals& globals, uint64_t address, uint64_t* base);
  // Finds a variable, or else a block.
  const Global* FindGlobal(uint64_t address, uint64_t* base) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t arena_base_;
  const uint64_t arena_bytes_;
  const std::vector<Allocator*> allocators_;  // By device.
  VirtualMemory* const virtual_memory_;
  IpcMemory* const ipc_memory_;

  std::atomic<uint64_t> changes_{0};
  mutable Mutex mu_;
  absl::flat_hash_map<uint64_t, Owner> owners_ ABSL_GUARDED_BY(mu_);  // By address.
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  Globals globals_ ABSL_GUARDED_BY(mu_);
  Globals blocks_ ABSL_GUARDED_BY(mu_);             // Without their modules.
  uint64_t blocks_ended_ ABSL_GUARDED_BY(mu_) = 0;  // How often blocks may have ceased to be.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_MEMORY_DEVICE_MEMORY_H_
