// Copies boxes in the driver's terms. Ends of a copy may be memory of other contexts.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_COPY_BOX_H_
#define WARPLINE_SERVER_DEVICE_CUDA_COPY_BOX_H_

#include <cuda.h>

#include "server/device/cuda/driver_api.h"

namespace warpline::device {

// Issues `copy`. `own` is the caller's context; `to` and `from` are the contexts of its ends.
CUresult CopyBox(const DriverApi& api, const CUDA_MEMCPY3D& copy, CUcontext own, CUcontext to,
                 CUcontext from, CUstream stream);

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_COPY_BOX_H_
