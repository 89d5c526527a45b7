// A context's arrays.
#ifndef WARPLINE_SERVER_DEVICE_FACETS_ARRAYS_H_
#define WARPLINE_SERVER_DEVICE_FACETS_ARRAYS_H_

#include <cstdint>

#include "common/cuda/box.h"
#include "common/cuda/cuda_result.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/objects.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Thread-safe.
class Arrays {
 public:
  static constexpr Capabilities kGives = Capability::kArrays;

  virtual ~Arrays() = default;

  // `shape` becomes what the device made of it.
  virtual CudaResult CreateArray(ArrayShape* shape, ArrayId* array) = 0;
  // Waits for work that uses it.
  virtual CudaResult DestroyArray(ArrayId array) = 0;
  // A level of a mipmapped array, or a plane of an array, which lives as long as the whole.
  virtual CudaResult ArrayLevel(ArrayId array, uint32_t level, ArrayShape* shape,
                                ArrayId* part) = 0;
  virtual CudaResult ArrayPlane(ArrayId array, uint32_t plane, ArrayShape* shape,
                                ArrayId* part) = 0;
  // At least one end is an array. kInvalidValue for what leaves it.
  virtual CudaResult CopyArray(const ArrayEnd& to, const ArrayEnd& from, const BoxExtent& extent,
                               StreamId stream) = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_ARRAYS_H_
