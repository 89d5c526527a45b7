// A GPU's arrays and their copies.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_ARRAYS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_ARRAYS_H_

#include <cuda.h>

#include <cstdint>

#include "common/cuda/box.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/facets/arrays.h"

namespace warpline::device {

// Thread-safe, as the driver is.
class CudaArrays : public virtual Arrays, protected CudaPart {
 public:
  explicit CudaArrays(CudaMember* member) : CudaPart(*member) {}

  CudaResult CreateArray(ArrayShape* shape, ArrayId* array) override;
  CudaResult DestroyArray(ArrayId array) override;
  CudaResult ArrayLevel(ArrayId array, uint32_t level, ArrayShape* shape, ArrayId* part) override;
  CudaResult ArrayPlane(ArrayId array, uint32_t plane, ArrayShape* shape, ArrayId* part) override;
  CudaResult CopyArray(const ArrayEnd& to, const ArrayEnd& from, const BoxExtent& extent,
                       StreamId stream) override;

 private:
  bool IsArray(const ArrayEnd& end) const;
  // Set one end of `*copy`, and the context that it names. Return false for an end that a command
  // may not name.
  bool UseSource(const ArrayEnd& end, const BoxExtent& extent, CUDA_MEMCPY3D* copy,
                 CUcontext* context) const;
  bool UseTarget(const ArrayEnd& end, const BoxExtent& extent, CUDA_MEMCPY3D* copy,
                 CUcontext* context) const;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_ARRAYS_H_
