#include "server/device/cpu/context/cpu_memory.h"

#include <sys/mman.h>

namespace warpline::cpu {

CpuMemory::~CpuMemory() {
  std::unordered_map<void*, size_t> left;
  {
    MutexLock lock(&mu_);
    left.swap(staging_);
  }
  for (const auto& [host, bytes] : left) Release(host, bytes);
}

CudaResult CpuMemory::ReserveArena(uint64_t base, uint64_t size) {
  const CudaResult result = memory_.ReserveArena(base, size, shared_->is_shared() ? kZoneBytes : 0);
  if (result == CudaResult::kSuccess) shared_->gate().SetArena(base, size);
  return result;
}

CudaResult CpuMemory::Unseal() {
  return shared_->streams().IsIdle() ? memory_.Unseal() : CudaResult::kNotReady;
}

CudaResult CpuMemory::MapHost(uint64_t va, uint64_t bytes, int fd) {
  if (shared_->is_shared()) return CudaResult::kNotSupported;
  const CudaResult result = memory_.MapRegion(va, bytes, fd);
  if (result == CudaResult::kSuccess) shared_->gate().AddHost(va, bytes);
  return result;
}

CudaResult CpuMemory::ShowHost(uint64_t va, uint64_t bytes, void* host) {
  if (!shared_->is_shared()) return CudaResult::kNotSupported;
  if (bytes == 0 || bytes > ~uint64_t{0} - va || memory_.InArena(va, 0)) {
    return CudaResult::kInvalidValue;
  }
  const auto address = reinterpret_cast<uint64_t>(host);
  memory_.BorrowRegion(address, bytes);
  shared_->gate().AddHost(va, bytes, address);
  return CudaResult::kSuccess;
}

CudaResult CpuMemory::UnmapHost(uint64_t va, uint64_t bytes) {
  if (!shared_->gate().RemoveHost(va, bytes)) return CudaResult::kInvalidValue;
  memory_.FreeRegion(va);
  return CudaResult::kSuccess;
}

CudaResult CpuMemory::AllocStaging(size_t bytes, void** host) {
  void* at = nullptr;
  if (shared_->is_shared()) {
    at = shared_->staging()->Take(bytes);
  } else if (bytes != 0) {
    at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (at == nullptr || at == MAP_FAILED) return CudaResult::kOutOfMemory;
  *host = at;
  MutexLock lock(&mu_);
  staging_[at] = bytes;
  return CudaResult::kSuccess;
}

void CpuMemory::FreeStaging(void* host) {
  size_t bytes = 0;
  {
    MutexLock lock(&mu_);
    const auto it = staging_.find(host);
    if (it == staging_.end()) return;
    bytes = it->second;
    staging_.erase(it);
  }
  Release(host, bytes);
}

void CpuMemory::Release(void* host, size_t bytes) {
  if (shared_->is_shared()) {
    shared_->staging()->GiveBack(host);
  } else {
    munmap(host, bytes);
  }
}

}  // namespace warpline::cpu
