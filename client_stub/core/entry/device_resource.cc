// What parts of a device there are: its multiprocessors, as a whole. They are described, because
// libraries choose their grids by them; splitting them is not offered.
#include "client_stub/core/runtime/contexts.h"
#include "client_stub/core/runtime/runtime.h"

using namespace warpline::stub;

namespace {

// The smallest part, in multiprocessors, and what the number in a part is a multiple of, by the
// compute capability (CUDA C++ Programming Guide, "Green Contexts").
void SetPartition(int major, CUdevSmResource* sm) {
  sm->minSmPartitionSize = major >= 9 ? 8 : major == 8 ? 4 : 2;
  sm->smCoscheduledAlignment = major >= 9 ? 8 : 2;
}

CUresult Describe(const Device& device, CUdevResource* resource, CUdevResourceType type) {
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = {};
  resource->type = type;
  resource->sm.smCount =
      static_cast<unsigned>(device.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  SetPartition(device.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), &resource->sm);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuDeviceGetDevResource(CUdevice device, CUdevResource* resource,
                                        CUdevResourceType type) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(CheckDevice(device));
  return Describe(runtime().devices[device], resource, type);
}

CUresult CUDAAPI cuCtxGetDevResource(CUcontext hCtx, CUdevResource* resource,
                                     CUdevResourceType type) {
  WARPLINE_TRY(EnterInitialized());
  const Context* const context = FindContext(hCtx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return Describe(*context->device, resource, type);
}

}  // extern "C"
