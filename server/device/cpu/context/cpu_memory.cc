#include "server/device/cpu/context/cpu_memory.h"

#include <sys/mman.h>

namespace warpline::cpu {

CudaResult CpuMemory::ReserveArena(uint64_t base, uint64_t size) {
  const CudaResult result = memory_.ReserveArena(base, size);
  if (result == CudaResult::kSuccess) shared_->gate().SetArena(base, size);
  return result;
}

CudaResult CpuMemory::MapHost(uint64_t va, uint64_t bytes, int fd) {
  const CudaResult result = memory_.MapRegion(va, bytes, fd);
  if (result == CudaResult::kSuccess) shared_->gate().AddHost(va, bytes);
  return result;
}

CudaResult CpuMemory::UnmapHost(uint64_t va, uint64_t bytes) {
  if (!shared_->gate().RemoveHost(va, bytes)) return CudaResult::kInvalidValue;
  memory_.FreeRegion(va);
  return CudaResult::kSuccess;
}

CudaResult CpuMemory::AllocStaging(size_t bytes, void** host) {
  void* const at =
      bytes == 0 ? MAP_FAILED
                 : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return CudaResult::kOutOfMemory;
  *host = at;
  MutexLock lock(&mu_);
  staging_[at] = bytes;
  return CudaResult::kSuccess;
}

void CpuMemory::FreeStaging(void* host) {
  MutexLock lock(&mu_);
  const auto it = staging_.find(host);
  if (it == staging_.end()) return;
  munmap(host, it->second);
  staging_.erase(it);
}

}  // namespace warpline::cpu
