// The heap behind malloc() and free() in kernels. Thread-safe.
//
// The memory is one region of the context's MemoryMap, which is made when it is first asked for.
// The lists of what is free and what is used are kept apart from it, where kernels cannot reach
// them.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MEMORY_DEVICE_HEAP_H_
#define WARPLINE_SERVER_DEVICE_CPU_MEMORY_DEVICE_HEAP_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/cpu/memory/memory_map.h"

namespace warpline::cpu {

class DeviceHeap {
 public:
  static constexpr uint64_t kDefaultBytes = 8 << 20;
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

  // `memory` must outlive the heap.
  explicit DeviceHeap(MemoryMap* memory) : memory_(memory) {}
  DeviceHeap(const DeviceHeap&) = delete;
  DeviceHeap& operator=(const DeviceHeap&) = delete;
  ~DeviceHeap();

  uint64_t size() const;
  // kInvalidValue beyond kMaxBytes and, as in CUDA, once a kernel has allocated.
  CudaResult Resize(uint64_t bytes);

  // Returns 0 when there is no room.
  uint64_t Allocate(uint64_t bytes);
  // Returns false when nothing is allocated at `address`. Freeing 0 does nothing.
  bool Free(uint64_t address);

 private:
  MemoryMap* const memory_;
  mutable Mutex mu_;
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = kDefaultBytes;
  uint64_t base_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, uint64_t> free_ ABSL_GUARDED_BY(mu_);  // Address -> bytes
  std::map<uint64_t, uint64_t> used_ ABSL_GUARDED_BY(mu_);  // Address -> bytes
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MEMORY_DEVICE_HEAP_H_
