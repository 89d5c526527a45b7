// A context's arrays.
//
//   ArrayShape shape;
//   shape.width = 64;
//   shape.format = 0x20;  // CU_AD_FORMAT_FLOAT
//   shape.channels = 1;
//   ArrayId array;
//   CudaResult result = arrays->CreateArray(&shape, &array);
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

  // Makes an array, and sets `*shape` to what the device made of it.
  virtual CudaResult CreateArray(ArrayShape* shape, ArrayId* array) = 0;
  // Waits for work that uses the array.
  virtual CudaResult DestroyArray(ArrayId array) = 0;
  // Give a level of a mipmapped array, or a plane of an array. The part lives as long as the whole.
  virtual CudaResult ArrayLevel(ArrayId array, uint32_t level, ArrayShape* shape,
                                ArrayId* part) = 0;
  virtual CudaResult ArrayPlane(ArrayId array, uint32_t plane, ArrayShape* shape,
                                ArrayId* part) = 0;
  // Copies between two ends of which at least one is an array. kInvalidValue when the box leaves an
  // array.
  virtual CudaResult CopyArray(const ArrayEnd& to, const ArrayEnd& from, const BoxExtent& extent,
                               StreamId stream) = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_ARRAYS_H_
