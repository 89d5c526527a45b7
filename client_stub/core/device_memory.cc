#include "client_stub/core/device_memory.h"

#include <vector>

namespace warpline::stub {

DeviceMemory::DeviceMemory(const Session* session, Allocator* allocator)
    : arena_base_(session->arena_base()),
      arena_bytes_(session->arena_bytes()),
      allocator_(allocator) {}

CUresult DeviceMemory::Allocate(const Context* context, uint64_t bytes, uint64_t* address) {
  const CUresult result = ToCu(allocator_->Allocate(bytes, address));
  if (result == CUDA_SUCCESS) NoteAllocated(context, *address);
  return result;
}

CUresult DeviceMemory::AllocateAsync(const Context* context, uint64_t bytes, uint64_t stream,
                                     uint64_t* address) {
  const CUresult result = ToCu(allocator_->AllocateAsync(bytes, stream, address));
  if (result == CUDA_SUCCESS) NoteAllocated(context, *address);
  return result;
}

// The owner goes before the address can be handed out again.
CUresult DeviceMemory::Free(uint64_t address) {
  Allocation allocation;
  if (!allocator_->Find(address, &allocation) || allocation.base != address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  NoteFreed(address);
  return ToCu(allocator_->Free(address));
}

CUresult DeviceMemory::FreeAsync(uint64_t address, uint64_t stream) {
  Allocation allocation;
  if (!allocator_->Find(address, &allocation) || allocation.base != address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  NoteFreed(address);
  return ToCu(allocator_->FreeAsync(address, stream));
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

void DeviceMemory::NoteAllocated(const Context* context, uint64_t address) {
  MutexLock lock(&mu_);
  owners_[address] = {context, next_id_++};
}

void DeviceMemory::NoteFreed(uint64_t address) {
  MutexLock lock(&mu_);
  owners_.erase(address);
}

void DeviceMemory::AddGlobal(const Module* module, uint64_t address, uint64_t bytes) {
  MutexLock lock(&mu_);
  globals_[address] = {bytes, module};
}

void DeviceMemory::ForgetGlobalsOf(const Module* module) {
  MutexLock lock(&mu_);
  for (auto it = globals_.begin(); it != globals_.end();) {
    it = it->second.module == module ? globals_.erase(it) : std::next(it);
  }
}

const DeviceMemory::Global* DeviceMemory::FindGlobal(uint64_t address, uint64_t* base) const {
  auto it = globals_.upper_bound(address);
  if (it == globals_.begin()) return nullptr;
  --it;
  if (address - it->first >= it->second.bytes) return nullptr;
  *base = it->first;
  return &it->second;
}

bool DeviceMemory::Contains(uint64_t address, uint64_t bytes) const {
  if (InArena(address)) return allocator_->Contains(address, bytes);
  MutexLock lock(&mu_);
  uint64_t base;
  const Global* global = FindGlobal(address, &base);
  return global != nullptr && bytes <= global->bytes - (address - base);
}

bool DeviceMemory::IsDevice(uint64_t address) const {
  if (InArena(address)) return true;
  MutexLock lock(&mu_);
  uint64_t base;
  return FindGlobal(address, &base) != nullptr;
}

bool DeviceMemory::Find(uint64_t address, Range* range) const {
  *range = {};
  Allocation allocation;
  const bool allocated = allocator_->Find(address, &allocation);
  MutexLock lock(&mu_);
  if (allocated) {
    range->base = allocation.base;
    range->bytes = allocation.bytes;
    range->stream_ordered = allocation.stream_ordered;
    const auto owner = owners_.find(allocation.base);
    if (owner == owners_.end()) return false;
    range->context = owner->second.context;
    range->id = owner->second.id;
    return true;
  }
  const Global* global = FindGlobal(address, &range->base);
  if (global == nullptr) return false;
  range->bytes = global->bytes;
  return true;
}

}  // namespace warpline::stub
