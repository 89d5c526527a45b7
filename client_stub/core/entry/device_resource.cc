// Parts of a device: its multiprocessors, and how they are split (sm_resources.h).
#include "client_stub/core/context/green_contexts.h"
#include "client_stub/core/context/sm_resources.h"
#include "client_stub/core/runtime/contexts.h"
#include "client_stub/core/runtime/runtime.h"

using namespace warpline::stub;

namespace {

CUresult CheckQuery(const CUdevResource* resource, CUdevResourceType type) {
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return type == CU_DEV_RESOURCE_TYPE_SM ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuDeviceGetDevResource(CUdevice device, CUdevResource* resource,
                                        CUdevResourceType type) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(CheckDevice(device));
  WARPLINE_TRY(CheckQuery(resource, type));
  return DescribeResource(&runtime().devices[device], {}, resource);
}

CUresult CUDAAPI cuCtxGetDevResource(CUcontext hCtx, CUdevResource* resource,
                                     CUdevResourceType type) {
  WARPLINE_TRY(EnterInitialized());
  const Context* const context = FindContext(hCtx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  WARPLINE_TRY(CheckQuery(resource, type));
  if (context->green == nullptr) return DescribeResource(context->device, {}, resource);
  if (!context->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return DescribeResource(context->device, *context->green->path, resource);
}

CUresult CUDAAPI cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource* resource,
                                          CUdevResourceType type) {
  WARPLINE_TRY(EnterInitialized());
  const GreenContext* const green = FindGreenContext(hCtx);
  if (green == nullptr) return NoGreenContext(hCtx);
  WARPLINE_TRY(CheckQuery(resource, type));
  return DescribeResource(green->context->device, *green->path, resource);
}

CUresult CUDAAPI cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* nbGroups,
                                             const CUdevResource* input, CUdevResource* remaining,
                                             unsigned int useFlags, unsigned int minCount) {
  WARPLINE_TRY(EnterInitialized());
  return SplitResource(result, nbGroups, input, remaining, useFlags, minCount);
}

CUresult CUDAAPI cuDevResourceGenerateDesc(CUdevResourceDesc* phDesc, CUdevResource* resources,
                                           unsigned int nbResources) {
  WARPLINE_TRY(EnterInitialized());
  return DescriptorOf(resources, nbResources, phDesc);
}

}  // extern "C"
