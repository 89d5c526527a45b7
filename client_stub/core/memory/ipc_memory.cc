#include "client_stub/core/memory/ipc_memory.h"

#include <iterator>

#include "proto/frames.h"

namespace warpline::stub {

CudaResult IpcMemory::Offer(uint32_t device, uint64_t base, uint64_t bytes, uint64_t id,
                            OfferedAllocation* offered) {
  {
    MutexLock lock(&mu_);
    const auto it = offered_.find(base);
    if (it != offered_.end() && it->second.id == id) {
      *offered = it->second.allocation;
      return CudaResult::kSuccess;
    }
  }
  SharedMemory shared;
  const CudaResult result = requests_->Share({.va = base, .bytes = bytes}, &shared);
  if (result != CudaResult::kSuccess) return result;
  if (base - shared.va >= shared.bytes) return CudaResult::kUnknown;
  *offered = {shared.token, shared.bytes, base - shared.va, bytes, device};
  MutexLock lock(&mu_);
  offered_[base] = {id, *offered};
  return CudaResult::kSuccess;
}

CudaResult IpcMemory::Open(const OfferedAllocation& offered, uint64_t* address) {
  if (offered.chunk_bytes % kChunkGranularity != 0 || offered.offset > offered.chunk_bytes ||
      offered.bytes == 0 || offered.bytes > offered.chunk_bytes - offered.offset) {
    return CudaResult::kInvalidValue;
  }
  MutexLock opening(&open_mu_);
  {
    MutexLock lock(&mu_);
    for (const auto& [base, own] : offered_) {
      if (own.allocation.token == offered.token) return CudaResult::kInvalidContext;
    }
    for (auto& [base, opened] : opened_) {
      if (opened.token != offered.token || base != opened.mapping + offered.offset) continue;
      ++opened.uses;
      *address = base;
      return CudaResult::kSuccess;
    }
  }
  uint64_t mapping;
  const CudaResult result =
      memory_->OpenShared(offered.device, offered.token, offered.chunk_bytes, &mapping);
  if (result != CudaResult::kSuccess) return result;
  *address = mapping + offered.offset;
  MutexLock lock(&mu_);
  opened_[*address] = {offered.bytes, mapping, 1, offered.token};
  return CudaResult::kSuccess;
}

CudaResult IpcMemory::Close(uint64_t address) {
  uint64_t mapping;
  {
    MutexLock lock(&mu_);
    const auto it = opened_.find(address);
    if (it == opened_.end()) return CudaResult::kInvalidValue;
    if (--it->second.uses > 0) return CudaResult::kSuccess;
    mapping = it->second.mapping;
    opened_.erase(it);
  }
  return memory_->CloseShared(mapping);
}

bool IpcMemory::Find(uint64_t address, uint64_t* base, uint64_t* bytes) const {
  MutexLock lock(&mu_);
  auto it = opened_.upper_bound(address);
  if (it == opened_.begin()) return false;
  --it;
  if (address - it->first >= it->second.bytes) return false;
  *base = it->first;
  *bytes = it->second.bytes;
  return true;
}

}  // namespace warpline::stub
