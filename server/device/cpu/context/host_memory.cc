// Memory that the host has a part in.
#include "server/device/cpu/context/cpu_context.h"

namespace warpline::cpu {

CudaResult CpuContext::MapHost(uint64_t va, uint64_t bytes, int fd) {
  return memory_.MapRegion(va, bytes, fd);
}

CudaResult CpuContext::UnmapHost(uint64_t va, uint64_t) {
  if (!memory_.InRegion(va, 1)) return CudaResult::kInvalidValue;
  memory_.FreeRegion(va);
  return CudaResult::kSuccess;
}

bool CpuModule::ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) const {
  for (const auto& [name, global] : symbols_.globals) {
    if (global.address != address || !global.variable->managed) continue;
    *base = region_;
    *bytes = region_bytes_;
    return true;
  }
  return false;
}

CudaResult CpuContext::ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) {
  *base = *bytes = 0;
  MutexLock lock(&mu_);
  for (const auto& [id, module] : modules_) {
    if (module->ManagedBlock(address, base, bytes)) break;
  }
  return CudaResult::kSuccess;
}

}  // namespace warpline::cpu
