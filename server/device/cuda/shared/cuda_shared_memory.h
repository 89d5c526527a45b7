// The memory of a context of a shared device: an arena with zones beside it, and staging memory
// from the device's pool. The arena and its zones are mapped completely whenever a kernel runs.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_MEMORY_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/cuda/shared/live_set.h"
#include "server/device/facets/memory.h"

namespace warpline::device {

// Thread-safe. It must be destroyed after all work of the context, and leaves nothing mapped,
// reserved or taken.
class CudaSharedMemory : public virtual Memory, protected CudaPart {
 public:
  explicit CudaSharedMemory(CudaMember* member) : CudaPart(*member), staging_(/*tracks=*/true) {}
  ~CudaSharedMemory() override;

  uint32_t peers() const override { return group_->members()[place_].reaches; }
  // Also returns kInvalidValue when addresses of the zones are taken, so arenas of a device never
  // adjoin.
  CudaResult ReserveArena(uint64_t base, uint64_t size) override;
  CudaResult MapChunk(uint64_t va, uint64_t bytes, int fd) override;
  CudaResult UnmapChunk(uint64_t va, uint64_t bytes) override;
  CudaResult MapSink(uint64_t va, uint64_t bytes) override;
  CudaResult MapOwn(uint64_t va, uint64_t bytes) override;
  // After a failure nothing that it mapped is left, and it may be called again.
  CudaResult Seal() override;
  CudaResult Unseal() override;
  uint64_t own_bytes() const override { return own_bytes_.load(); }
  CudaResult SetChunkAccess(uint64_t va, uint64_t bytes, MemoryAccess access) override;
  CudaResult MapHost(uint64_t, uint64_t, int) override { return CudaResult::kNotSupported; }
  CudaResult ShowHost(uint64_t va, uint64_t bytes, void* host) override;
  CudaResult UnmapHost(uint64_t, uint64_t) override { return CudaResult::kInvalidValue; }
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
  enum class Use { kChunk, kOwn, kSink };
  struct Mapping {
    uint64_t bytes = 0;
    Use use = Use::kChunk;
  };
  struct Range {
    uint64_t start = 0;
    uint64_t end = 0;
  };
  // The memory behind all sink granules of one size.
  struct Sink {
    uint64_t bytes = 0;  // The size of a granule.
    CUmemGenericAllocationHandle memory = 0;
  };

  // Returns whether the range consists of granules of the arena.
  bool IsOfGranules(uint64_t va, uint64_t bytes) const;
  CUresult Create(uint64_t bytes, CUmemGenericAllocationHandle* memory);
  CUresult Map(uint64_t va, uint64_t bytes, CUmemGenericAllocationHandle memory, Use use)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // REQUIRES: something is mapped at `va`.
  void Unmap(uint64_t va) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sets the device's access to a range of whole mappings.
  CUresult SetAccess(uint64_t va, uint64_t bytes, MemoryAccess access);
  // Fills mapped memory with zeros, on a stream of its own, and waits for that.
  CUresult Zero(uint64_t va, uint64_t bytes);
  // Returns the parts of the range where nothing is mapped.
  std::vector<Range> Holes(const Range& range) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Maps sinks all over a hole. If `may_be_large`, it uses the session's larger granule where that
  // fits.
  CUresult Fill(const Range& hole, bool may_be_large) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Maps a granule of the sink. The first call makes and zeroes the sink's memory.
  CUresult MapGranule(uint64_t va, Sink* sink) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Unmaps the sinks in the range.
  void DropSinks(const Range& range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::atomic<uint64_t> own_bytes_{0};
  LiveSet<void*> staging_;
  // Held across the calls that map, so that nothing is mapped while the arena is sealed.
  Mutex mu_;
  bool sealed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Range> zones_ ABSL_GUARDED_BY(mu_);              // The reserved zones.
  std::map<uint64_t, Mapping> mappings_ ABSL_GUARDED_BY(mu_);  // By address.
  Sink small_ ABSL_GUARDED_BY(mu_);
  Sink large_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_MEMORY_H_
