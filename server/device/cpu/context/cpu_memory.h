// The arena of the CPU device, and memory of the host.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_MEMORY_H_
#define WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/cpu/context/cpu_shared.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/facets/memory.h"

namespace warpline::cpu {

// Thread-safe.
class CpuMemory : public virtual device::Memory {
 public:
  explicit CpuMemory(CpuShared* shared) : shared_(shared), memory_(shared->memory()) {}
  ~CpuMemory() override;

  uint32_t peers() const override { return (uint32_t{2} << (shared_->group().contexts - 1)) - 1; }
  CudaResult ReserveArena(uint64_t base, uint64_t size) override;
  CudaResult MapChunk(uint64_t va, uint64_t bytes, int fd) override {
    return memory_.MapChunk(va, bytes, fd);
  }
  CudaResult UnmapChunk(uint64_t va, uint64_t bytes) override {
    return memory_.UnmapChunk(va, bytes);
  }
  CudaResult MapSink(uint64_t va, uint64_t bytes) override { return memory_.MapSink(va, bytes); }
  // A sink's pages are its own.
  CudaResult MapOwn(uint64_t va, uint64_t bytes) override { return memory_.MapSink(va, bytes); }
  CudaResult Seal() override {
    return shared_->is_shared() ? memory_.Seal(shared_->sink_granule_bytes())
                                : CudaResult::kNotSupported;
  }
  CudaResult Unseal() override;
  uint64_t own_bytes() const override { return memory_.own_bytes(); }
  CudaResult SetChunkAccess(uint64_t va, uint64_t bytes, device::MemoryAccess access) override {
    return memory_.SetChunkAccess(va, bytes, access);
  }
  CudaResult MapHost(uint64_t va, uint64_t bytes, int fd) override;
  CudaResult ShowHost(uint64_t va, uint64_t bytes, void* host) override;
  CudaResult UnmapHost(uint64_t va, uint64_t bytes) override;
  void LimitVariables() override { shared_->gate().LimitVariables(); }
  void AddVariable(uint64_t named, uint64_t bytes, uint64_t address) override {
    shared_->gate().AddVariable(named, bytes, address);
  }
  CudaResult FindVariables(uint64_t address, uint64_t* base, uint64_t* bytes,
                           uint32_t* owner) override {
    const auto block = shared_->gate().FindVariables(address);
    if (!block) return CudaResult::kNotFound;
    *base = block->address;
    *bytes = block->bytes;
    *owner = block->owner;
    return CudaResult::kSuccess;
  }
  void RemoveVariable(uint64_t address) override { shared_->gate().RemoveVariable(address); }
  CudaResult AllocStaging(size_t bytes, void** host) override;
  void FreeStaging(void* host) override;

 private:
  void Release(void* host, size_t bytes);

  CpuShared* const shared_;
  MemoryMap& memory_;
  Mutex mu_;
  // What was allocated; of a shared device's pool, for is_shared().
  std::unordered_map<void*, size_t> staging_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_MEMORY_H_
