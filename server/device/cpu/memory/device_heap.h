// The heap behind malloc() and free() in kernels. Thread-safe.
//
// The memory is one region of the context's MemoryMap, made when it is first asked for. What is
// free and what is not is kept apart from it, where kernels cannot reach.
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

  // `memory` outlives the heap.
  explicit DeviceHeap(MemoryMap* memory) : memory_(memory) {}
  DeviceHeap(const DeviceHeap&) = delete;
  DeviceHeap& operator=(const DeviceHeap&) = delete;
  ~DeviceHeap();

  uint64_t size() const;
  // kInvalidValue once a kernel has allocated, as in CUDA, and beyond kMaxBytes.
  CudaResult Resize(uint64_t bytes);

  // 0 when there is no room.
  uint64_t Allocate(uint64_t bytes);
  // False when nothing is allocated at `address`. Freeing 0 does nothing.
  bool Free(uint64_t address);

 private:
  MemoryMap* const memory_;
  mutable Mutex mu_;
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = kDefaultBytes;
  uint64_t base_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, uint64_t> free_ ABSL_GUARDED_BY(mu_);  // Address -> bytes
  std::map<uint64_t, uint64_t> used_ ABSL_GUARDED_BY(mu_);  // Likewise
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MEMORY_DEVICE_HEAP_H_
