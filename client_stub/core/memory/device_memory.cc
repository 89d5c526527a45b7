#include "client_stub/core/memory/device_memory.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client_stub/core/memory/host_memory.h"
#include "client_stub/core/memory/process_maps.h"
#include "client_stub/core/memory/virtual_memory.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/tier/tier_watch.h"
#include "proto/devices.h"
#include "proto/frames.h"
#include "proto/wire.h"

namespace warpline::stub {
namespace {

void TellWatch(CUresult result) {
  TierWatch* const watch = runtime().tier_watch;
  if (watch != nullptr && result == CUDA_ERROR_OUT_OF_MEMORY) watch->OnMemoryRefused();
}

}  // namespace

DeviceMemory::DeviceMemory(const SessionTerms& terms, std::vector<Allocator*> allocators,
                           VirtualMemory* virtual_memory, IpcMemory* ipc_memory)
    : arena_base_(terms.arena_base),
      arena_bytes_(terms.arena_bytes),
      allocators_(std::move(allocators)),
      virtual_memory_(virtual_memory),
      ipc_memory_(ipc_memory) {}

uint32_t DeviceMemory::DeviceOf(uint64_t address) const {
  const auto count = static_cast<uint32_t>(allocators_.size());
  if (count == 1) return 0;
  const uint64_t device = DeviceOfAddress(address, arena_base_, arena_bytes_, count);
  return device < count ? static_cast<uint32_t>(device) : 0;
}

CUresult DeviceMemory::Allocate(uint32_t device, const Context* context, uint64_t bytes,
                                uint64_t* address) {
  Allocator* const allocator = allocators_[device];
  CUresult result = ToCu(allocator->Allocate(bytes, address));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    virtual_memory_->ReturnUnused(device);
    result = ToCu(allocator->Allocate(bytes, address));
  }
  TellWatch(result);
  if (result == CUDA_SUCCESS) NoteAllocated(context, nullptr, *address, bytes);
  return result;
}

CUresult DeviceMemory::AllocateAsync(uint32_t device, const Context* context, MemoryPool* pool,
                                     uint64_t bytes, uint64_t stream, uint64_t* address) {
  if (!pool->Take(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocator* const allocator = allocators_[device];
  CUresult result = ToCu(allocator->AllocateAsync(bytes, stream, address));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    virtual_memory_->ReturnUnused(device);
    result = ToCu(allocator->AllocateAsync(bytes, stream, address));
  }
  TellWatch(result);
  if (result == CUDA_SUCCESS) {
    NoteAllocated(context, pool, *address, bytes);
  } else {
    pool->Give(bytes);
  }
  return result;
}

// Removes the owner before the address can be handed out again.
CUresult DeviceMemory::Free(uint64_t address) {
  Allocation allocation;
  Allocator* const allocator = AllocatorOf(address);
  if (!allocator->Find(address, &allocation) || allocation.base != address) {
    // Memory of another process's pool.
    return ToCu(ipc_memory_->Close(address));
  }
  NoteFreed(address);
  return ToCu(allocator->Free(address));
}

CUresult DeviceMemory::FreeAsync(uint64_t address, uint64_t stream) {
  Allocation allocation;
  Allocator* const allocator = AllocatorOf(address);
  if (!allocator->Find(address, &allocation) || allocation.base != address) {
    // Memory of another process's pool.
    return ToCu(ipc_memory_->Close(address));
  }
  NoteFreed(address);
  return ToCu(allocator->FreeAsync(address, stream));
}

void DeviceMemory::FreeAllOf(const Context* context) {
  std::vector<uint64_t> addresses;
  {
    MutexLock lock(&mu_);
    for (const auto& [address, owner] : owners_) {
      if (owner.context == context) addresses.push_back(address);
    }
  }
  for (const uint64_t address : addresses) Free(address);
}

void DeviceMemory::NoteAllocated(const Context* context, MemoryPool* pool, uint64_t address,
                                 uint64_t bytes) {
  MutexLock lock(&mu_);
  owners_[address] = {context, next_id_++, pool, bytes};
  NoteChange();
}

void DeviceMemory::NoteFreed(uint64_t address) {
  MemoryPool* pool;
  uint64_t bytes;
  {
    MutexLock lock(&mu_);
    const auto owner = owners_.find(address);
    if (owner == owners_.end()) return;
    pool = owner->second.pool;
    bytes = owner->second.bytes;
    owners_.erase(owner);
    NoteChange();
  }
  // A pool outlives its handle.
  if (pool != nullptr) pool->Give(bytes);
}

bool DeviceMemory::SetSyncMemops(uint64_t address, bool value) {
  Allocation allocation;
  if (!AllocatorOf(address)->Find(address, &allocation)) return false;
  MutexLock lock(&mu_);
  const auto owner = owners_.find(allocation.base);
  if (owner == owners_.end()) return false;
  owner->second.sync_memops = value;
  return true;
}

void DeviceMemory::AddGlobal(uint32_t device, const Module* module, uint64_t address,
                             uint64_t bytes) {
  MutexLock lock(&mu_);
  globals_[address] = {bytes, module, device};
  NoteChange();
}

bool DeviceMemory::LearnBlock(uint64_t address) {
  if (InArena(address) || InHostArena(address)) return false;
  uint64_t ended;
  {
    MutexLock lock(&mu_);
    uint64_t base;
    if (FindGlobal(address, &base) != nullptr || IsMapped(address, 1)) return false;
    ended = blocks_ended_;
  }
  std::string reply;
  const CudaResult result =
      runtime().commands->Call(WaitKind::kRoundTrip, cmd::VariableBlockFind{address}, {}, &reply);
  std::string_view rest = reply;
  cmd::VariableBlockFindReply found;
  if (result != CudaResult::kSuccess || !TakeStruct(&rest, &found) ||
      address - found.base >= found.bytes || found.bytes > ~uint64_t{0} - found.base ||
      found.device >= allocators_.size()) {
    return false;
  }
  MutexLock lock(&mu_);
  if (ended != blocks_ended_) return false;
  blocks_[found.base] = {found.bytes, nullptr, found.device};
  NoteChange();
  return true;
}

void DeviceMemory::ForgetGlobal(uint64_t address) {
  MutexLock lock(&mu_);
  globals_.erase(address);
  NoteChange();
}

void DeviceMemory::ForgetGlobalsOf(const Module* module) {
  MutexLock lock(&mu_);
  for (auto it = globals_.begin(); it != globals_.end();) {
    it = it->second.module == module ? globals_.erase(it) : std::next(it);
  }
  // The module's own are not known; what is left is asked for again.
  blocks_.clear();
  ++blocks_ended_;
  NoteChange();
}

std::vector<CheckedRange> DeviceMemory::Ranges() const {
  std::vector<CheckedRange> ranges = virtual_memory_->MappedRanges();
  {
    MutexLock lock(&mu_);
    for (const auto& [address, owner] : owners_) {
      ranges.push_back({address, address + owner.bytes});
    }
    for (const auto& [address, global] : globals_) {
      ranges.push_back({address, address + global.bytes});
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const CheckedRange& a, const CheckedRange& b) { return a.begin < b.begin; });
  return ranges;
}

const DeviceMemory::Global* DeviceMemory::FindGlobal(uint64_t address, uint64_t* base) const {
  const Global* const global = FindIn(globals_, address, base);
  return global != nullptr ? global : FindIn(blocks_, address, base);
}

const DeviceMemory::Global* DeviceMemory::FindIn(const Globals& globals, uint64_t address,
                                                 uint64_t* base) {
  auto it = globals.upper_bound(address);
  if (it == globals.begin()) return nullptr;
  --it;
  if (address - it->first >= it->second.bytes) return nullptr;
  *base = it->first;
  return &it->second;
}

bool DeviceMemory::Contains(uint64_t address, uint64_t bytes) const {
  if (InArena(address) && (AllocatorOf(address)->Contains(address, bytes) ||
                           virtual_memory_->Contains(address, bytes))) {
    return true;
  }
  // Variables of guarded modules lie in the arena, too.
  MutexLock lock(&mu_);
  uint64_t base;
  const Global* global = FindGlobal(address, &base);
  return global != nullptr && bytes <= global->bytes - (address - base);
}

bool DeviceMemory::IsDevice(uint64_t address) const {
  if (InArena(address)) return !runtime().host_memory->HostsArena(address);
  MutexLock lock(&mu_);
  uint64_t base;
  return FindGlobal(address, &base) != nullptr;
}

bool DeviceMemory::FindMapped(uint64_t address, Range* range) const {
  VirtualMemory::Mapping mapping;
  if (!virtual_memory_->Find(address, &mapping)) return false;
  range->id = mapping.id << 1 | 1;  // Odd, unlike the ids of allocations.
  range->device = DeviceOfHandle(mapping.handle);
  range->mapped = true;
  range->access = mapping.access;
  range->handle_types = mapping.handle_types;
  if (ipc_memory_->Find(address, &range->base, &range->bytes)) {
    range->mapping_base = range->base;
    range->mapping_bytes = range->bytes;
    return true;
  }
  range->base = mapping.base;
  range->bytes = mapping.bytes;
  range->mapping_base = mapping.base;
  range->mapping_bytes = mapping.bytes;
  return true;
}

bool DeviceMemory::Find(uint64_t address, Range* range) const {
  *range = {};
  Allocation allocation;
  const bool allocated = AllocatorOf(address)->Find(address, &allocation);
  if (!allocated && InArena(address) && FindMapped(address, range)) return true;
  MutexLock lock(&mu_);
  if (allocated) {
    range->base = allocation.base;
    range->bytes = allocation.bytes;
    range->device = DeviceOf(address);
    range->mapping_base = range->base;
    range->mapping_bytes = range->bytes;
    range->ipc_capable = !allocation.stream_ordered;
    const auto owner = owners_.find(allocation.base);
    if (owner == owners_.end()) return false;
    range->context = owner->second.context;
    range->id = owner->second.id << 1;
    range->pool = owner->second.pool;
    range->sync_memops = owner->second.sync_memops;
    return true;
  }
  const Global* global = FindGlobal(address, &range->base);
  if (global == nullptr) return false;
  range->bytes = global->bytes;
  range->device = global->device;
  range->mapping_base = range->base;
  range->mapping_bytes = range->bytes;
  return true;
}

}  // namespace warpline::stub
