// Copies boxes in the driver's terms. Ends of a copy may be memory of other contexts.
//
//   CUDA_MEMCPY3D copy = DescribeBox(extent);
//   SetSource(*from, extent, &copy);
//   SetTarget(*to, extent, &copy);
//   CUresult result = CopyBox(api, copy, own, own, own, stream);
#ifndef WARPLINE_SERVER_DEVICE_CUDA_COPY_BOX_H_
#define WARPLINE_SERVER_DEVICE_CUDA_COPY_BOX_H_

#include <cuda.h>

#include "common/cuda/box.h"
#include "server/device/cuda/driver_api.h"
#include "server/device/gate/address_gate.h"

namespace warpline::device {

// A copy without ends.
CUDA_MEMCPY3D DescribeBox(const BoxExtent& extent);

// Name an end with the type of its memory, so that the driver does not tell by the address.
void SetSource(const GatedBox& box, const BoxExtent& extent, CUDA_MEMCPY3D* copy);
void SetTarget(const GatedBox& box, const BoxExtent& extent, CUDA_MEMCPY3D* copy);
// The same for a buffer of the worker in which the rows lie without gaps.
void SetSource(const void* buffer, const BoxExtent& extent, CUDA_MEMCPY3D* copy);
void SetTarget(void* buffer, const BoxExtent& extent, CUDA_MEMCPY3D* copy);

// Issues `copy`. `own` is the caller's context; `to` and `from` are the contexts of its ends.
CUresult CopyBox(const DriverApi& api, const CUDA_MEMCPY3D& copy, CUcontext own, CUcontext to,
                 CUcontext from, CUstream stream);

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_COPY_BOX_H_
