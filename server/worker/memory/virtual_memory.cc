#include "server/worker/memory/virtual_memory.h"

#include <iterator>

#include "proto/devices.h"

namespace warpline::worker {
namespace {

using device::MemoryAccess;

bool KnownAccess(uint32_t access) {
  switch (static_cast<MemoryAccess>(access)) {
    case MemoryAccess::kNone:
    case MemoryAccess::kRead:
    case MemoryAccess::kReadWrite:
      return true;
  }
  return false;
}

CudaResult SetOnDevice(device::Context* context, uint64_t va, const std::vector<uint64_t>& chunks,
                       MemoryAccess access) {
  for (const uint64_t bytes : chunks) {
    const CudaResult result = context->SetChunkAccess(va, bytes, access);
    if (result != CudaResult::kSuccess) return result;
    va += bytes;
  }
  return CudaResult::kSuccess;
}

CudaResult UnmapChunks(device::Context* context, uint64_t va, const std::vector<uint64_t>& chunks) {
  CudaResult first = CudaResult::kSuccess;
  for (const uint64_t bytes : chunks) {
    const CudaResult result = context->UnmapChunk(va, bytes);
    if (first == CudaResult::kSuccess) first = result;
    va += bytes;
  }
  return first;
}

}  // namespace

CudaResult VirtualMemory::Hold(uint64_t handle, uint64_t bytes, UniqueFd fd) {
  device::Context* const context = ContextOf(handle);
  if (context == nullptr) return CudaResult::kInvalidValue;
  std::shared_ptr<Handle> held;
  std::vector<std::pair<uint64_t, MemoryAccess>> due;
  {
    MutexLock lock(&mu_);
    // A handle does not change while it is mapped, because others walk its chunks without the lock.
    for (const auto& [va, mapping] : mappings_) {
      if (mapping.handle == handle && !mapping.chunks.empty()) return CudaResult::kIllegalState;
    }
    std::shared_ptr<Handle>& entry = handles_[handle];
    if (entry == nullptr) entry = std::make_shared<Handle>();
    entry->context = context;
    entry->chunks.push_back({bytes, std::move(fd)});
    entry->bytes += bytes;
    held = entry;
    for (auto& [va, mapping] : mappings_) {
      if (mapping.handle != handle || !mapping.chunks.empty() || mapping.bytes != held->bytes) {
        continue;
      }
      for (const Chunk& chunk : held->chunks) mapping.chunks.push_back(chunk.bytes);
      due.emplace_back(va, mapping.access);
    }
  }
  for (const auto& [va, access] : due) {
    const CudaResult result = MapChunks(va, *held, access);
    if (result != CudaResult::kSuccess) return result;
  }
  return CudaResult::kSuccess;
}

CudaResult VirtualMemory::Drop(uint64_t handle) {
  MutexLock lock(&mu_);
  for (const auto& [va, mapping] : mappings_) {
    if (mapping.handle == handle) return CudaResult::kIllegalState;
  }
  handles_.erase(handle);
  return CudaResult::kSuccess;
}

CudaResult VirtualMemory::Release(uint64_t handle) {
  std::shared_ptr<Handle> held;
  std::vector<std::pair<uint64_t, std::vector<uint64_t>>> mapped;
  {
    MutexLock lock(&mu_);
    held = Find(handle);
    if (held == nullptr) return CudaResult::kInvalidValue;
    for (auto& [va, mapping] : mappings_) {
      // A mapping that is leaving is being unmapped already.
      if (mapping.handle == handle && !mapping.leaving && !mapping.chunks.empty()) {
        mapped.emplace_back(va, std::exchange(mapping.chunks, {}));
      }
    }
    handles_.erase(handle);
  }
  CudaResult first = CudaResult::kSuccess;
  for (const auto& [va, chunks] : mapped) {
    const CudaResult result = UnmapChunks(held->context, va, chunks);
    if (first == CudaResult::kSuccess) first = result;
  }
  return first;
}

CudaResult VirtualMemory::Map(uint64_t va, uint64_t bytes, uint64_t handle, uint32_t access) {
  device::Context* const context = ContextOf(handle);
  if (!KnownAccess(access) || bytes == 0 || va + bytes < va || context == nullptr) {
    return CudaResult::kInvalidValue;
  }
  std::shared_ptr<Handle> held;
  const auto wanted = static_cast<MemoryAccess>(access);
  {
    MutexLock lock(&mu_);
    held = Find(handle);
    const bool waits = restoring_ && held == nullptr;
    if (Overlaps(va, bytes) || (!waits && (held == nullptr || held->bytes != bytes))) {
      return CudaResult::kInvalidValue;
    }
    Mapping& mapping = mappings_[va];
    mapping = {bytes, handle, context, wanted, {}, false};
    if (waits) return CudaResult::kSuccess;
    for (const Chunk& chunk : held->chunks) mapping.chunks.push_back(chunk.bytes);
  }
  const CudaResult result = MapChunks(va, *held, wanted);
  if (result != CudaResult::kSuccess) {
    MutexLock lock(&mu_);
    mappings_.erase(va);
  }
  return result;
}

CudaResult VirtualMemory::SetAccess(uint64_t va, uint32_t access) {
  if (!KnownAccess(access)) return CudaResult::kInvalidValue;
  std::vector<uint64_t> chunks;
  device::Context* context = nullptr;
  {
    MutexLock lock(&mu_);
    const auto it = mappings_.find(va);
    if (it == mappings_.end() || it->second.leaving) return CudaResult::kInvalidValue;
    it->second.access = static_cast<MemoryAccess>(access);
    chunks = it->second.chunks;
    context = it->second.context;
  }
  return SetOnDevice(context, va, chunks, static_cast<MemoryAccess>(access));
}

CudaResult VirtualMemory::BeginUnmap(uint64_t va) {
  MutexLock lock(&mu_);
  const auto it = mappings_.find(va);
  if (it == mappings_.end() || it->second.leaving) return CudaResult::kInvalidValue;
  it->second.leaving = true;
  return CudaResult::kSuccess;
}

CudaResult VirtualMemory::FinishUnmap(uint64_t va) {
  std::vector<uint64_t> chunks;
  device::Context* context = nullptr;
  {
    MutexLock lock(&mu_);
    const auto it = mappings_.find(va);
    if (it == mappings_.end()) return CudaResult::kInvalidValue;
    chunks = it->second.chunks;
    context = it->second.context;
  }
  const CudaResult result = UnmapChunks(context, va, chunks);
  // A mapping that could not be undone stays: its memory must not go to another handle.
  if (result != CudaResult::kSuccess) return result;
  MutexLock lock(&mu_);
  mappings_.erase(va);
  return result;
}

void VirtualMemory::SetRestoring(bool restoring) {
  MutexLock lock(&mu_);
  restoring_ = restoring;
}

size_t VirtualMemory::mappings() const {
  MutexLock lock(&mu_);
  return mappings_.size();
}

CudaResult VirtualMemory::MapChunks(uint64_t va, const Handle& handle, MemoryAccess access) {
  std::vector<uint64_t> mapped;
  uint64_t at = va;
  for (const Chunk& chunk : handle.chunks) {
    CudaResult result = handle.context->MapChunk(at, chunk.bytes, chunk.fd.get());
    if (result == CudaResult::kSuccess) {
      mapped.push_back(chunk.bytes);
      if (access != MemoryAccess::kReadWrite) {
        result = handle.context->SetChunkAccess(at, chunk.bytes, access);
      }
    }
    if (result != CudaResult::kSuccess) {
      UnmapChunks(handle.context, va, mapped);
      return result;
    }
    at += chunk.bytes;
  }
  return CudaResult::kSuccess;
}

device::Context* VirtualMemory::ContextOf(uint64_t handle) const {
  const uint32_t device = DeviceOfHandle(handle);
  return device < contexts_.size() ? contexts_[device] : nullptr;
}

bool VirtualMemory::Overlaps(uint64_t va, uint64_t bytes) const {
  const auto next = mappings_.lower_bound(va);
  if (next != mappings_.end() && next->first - va < bytes) return true;
  if (next == mappings_.begin()) return false;
  const auto previous = std::prev(next);
  return va - previous->first < previous->second.bytes;
}

std::shared_ptr<VirtualMemory::Handle> VirtualMemory::Find(uint64_t handle) {
  const auto it = handles_.find(handle);
  return it == handles_.end() ? nullptr : it->second;
}

}  // namespace warpline::worker
