// The arrays of one context: plain host memory, rows without gaps.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MEMORY_ARRAY_STORE_H_
#define WARPLINE_SERVER_DEVICE_CPU_MEMORY_ARRAY_STORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/cuda/box.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/facets/objects.h"

namespace warpline::cpu {

// Immutable except for its bytes, which the order of streams protects.
struct CpuArray {
  device::ArrayShape shape;
  uint64_t pitch = 0;
  uint64_t slice = 0;
  std::unique_ptr<char, void (*)(void*)> bytes{nullptr, nullptr};
  // The levels of a mipmapped array, by id; such an array has no bytes of its own.
  std::vector<uint64_t> levels;

  // Finds the place of a box. Returns false when the box leaves the array.
  bool Find(uint64_t x, uint64_t y, uint64_t z, const BoxExtent& extent, BoxPlace* place) const;
};

// Thread-safe.
class ArrayStore {
 public:
  // kInvalidValue for a shape that no CUDA array has, kNotSupported for formats without plain
  // elements.
  CudaResult Create(device::ArrayShape* shape, device::ArrayId* id);
  CudaResult Destroy(device::ArrayId id);
  CudaResult Level(device::ArrayId id, uint32_t level, device::ArrayShape* shape,
                   device::ArrayId* part);
  // Returns null when no array has this id.
  std::shared_ptr<CpuArray> Find(device::ArrayId id);

 private:
  uint64_t Keep(std::shared_ptr<CpuArray> array);

  Mutex mu_;
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, std::shared_ptr<CpuArray>> arrays_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MEMORY_ARRAY_STORE_H_
