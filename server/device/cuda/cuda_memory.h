// A GPU's memory: the arena, what is mapped in it, and memory of the host.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_MEMORY_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/facets/memory.h"

namespace warpline::device {

// Thread-safe, as the driver is. It is for contexts whose device is not shared.
class CudaMemory : public virtual Memory, protected CudaPart {
 public:
  explicit CudaMemory(CudaMember* member) : CudaPart(*member) {}
  ~CudaMemory() override;

  uint32_t peers() const override { return group_->members()[place_].reaches; }
  CudaResult ReserveArena(uint64_t base, uint64_t size) override;
  CudaResult MapChunk(uint64_t va, uint64_t bytes, int fd) override;
  CudaResult UnmapChunk(uint64_t va, uint64_t bytes) override;
  CudaResult MapSink(uint64_t va, uint64_t bytes) override;
  CudaResult MapOwn(uint64_t va, uint64_t bytes) override;
  CudaResult Seal() override { return CudaResult::kNotSupported; }
  CudaResult Unseal() override { return CudaResult::kNotSupported; }
  uint64_t own_bytes() const override { return own_bytes_.load(); }
  CudaResult SetChunkAccess(uint64_t va, uint64_t bytes, MemoryAccess access) override;
  CudaResult MapHost(uint64_t va, uint64_t bytes, int fd) override;
  CudaResult ShowHost(uint64_t, uint64_t, void*) override { return CudaResult::kNotSupported; }
  CudaResult UnmapHost(uint64_t va, uint64_t bytes) override;
  void LimitVariables() override { group_->gate().LimitVariables(); }
  void AddVariable(uint64_t named, uint64_t bytes, uint64_t address) override {
    group_->gate().AddVariable(named, bytes, address);
  }
  CudaResult FindVariables(uint64_t address, uint64_t* base, uint64_t* bytes,
                           uint32_t* owner) override {
    const auto block = group_->gate().FindVariables(address);
    if (!block) return CudaResult::kNotFound;
    *base = block->address;
    *bytes = block->bytes;
    *owner = block->owner;
    return CudaResult::kSuccess;
  }
  void RemoveVariable(uint64_t named) override { group_->gate().RemoveVariable(named); }
  CudaResult AllocStaging(size_t bytes, void** host) override;
  void FreeStaging(void* host) override;

 private:
  // Makes memory of the device's that nobody else has.
  CUresult Create(uint64_t bytes, CUmemGenericAllocationHandle* memory);
  // The driver does not promise that new memory holds no data of another process.
  CudaResult Zero(uint64_t va, uint64_t bytes);
  void DropSinks(uint64_t va, uint64_t bytes);

  std::atomic<uint64_t> own_bytes_{0};
  Mutex sinks_mu_;
  CUmemGenericAllocationHandle sink_ = 0;                // Written with sinks_mu_ held.
  std::set<uint64_t> sinks_ ABSL_GUARDED_BY(sinks_mu_);  // The granules at which it is mapped.
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_MEMORY_H_
