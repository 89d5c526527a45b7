// Arrays and mipmapped arrays.
#include <cstring>

#include "client_stub/core/copy/arrays.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

CUresult EnterArray(CUarray handle, Array** array) {
  WARPLINE_TRY(EnterObject());
  *array = FindArray(handle);
  return *array == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult EnterMipmapped(CUmipmappedArray handle, Array** array) {
  WARPLINE_TRY(EnterObject());
  *array = FindMipmappedArray(handle);
  return *array == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuArrayCreate_v2(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) {
  WARPLINE_TRY(Enter());
  if (pHandle == nullptr || pAllocateArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  shape.Width = pAllocateArray->Width;
  shape.Height = pAllocateArray->Height;
  shape.Format = pAllocateArray->Format;
  shape.NumChannels = pAllocateArray->NumChannels;
  return CreateArray(CurrentOwner(), shape, pHandle);
}

CUresult CUDAAPI cuArray3DCreate_v2(CUarray* pHandle,
                                    const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) {
  WARPLINE_TRY(Enter());
  if (pHandle == nullptr || pAllocateArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return CreateArray(CurrentOwner(), *pAllocateArray, pHandle);
}

CUresult CUDAAPI cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
  Array* array;
  WARPLINE_TRY(EnterArray(hArray, &array));
  if (pArrayDescriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  pArrayDescriptor->Width = array->shape.Width;
  pArrayDescriptor->Height = array->shape.Height;
  pArrayDescriptor->Format = array->shape.Format;
  pArrayDescriptor->NumChannels = array->shape.NumChannels;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* pArrayDescriptor,
                                           CUarray hArray) {
  Array* array;
  WARPLINE_TRY(EnterArray(hArray, &array));
  if (pArrayDescriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pArrayDescriptor = array->shape;
  return CUDA_SUCCESS;
}

// These calls ask about sparse arrays and arrays whose memory is mapped later. There are none of
// either.
CUresult CUDAAPI cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES*, CUarray handle) {
  Array* array;
  WARPLINE_TRY(EnterArray(handle, &array));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES*,
                                                     CUmipmappedArray handle) {
  Array* array;
  WARPLINE_TRY(EnterMipmapped(handle, &array));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS*, CUarray handle,
                                              CUdevice device) {
  Array* array;
  WARPLINE_TRY(EnterArray(handle, &array));
  WARPLINE_TRY(CheckDevice(device));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS*,
                                                       CUmipmappedArray handle, CUdevice device) {
  Array* array;
  WARPLINE_TRY(EnterMipmapped(handle, &array));
  WARPLINE_TRY(CheckDevice(device));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuArrayGetPlane(CUarray* pPlaneArray, CUarray hArray, unsigned int planeIdx) {
  WARPLINE_TRY(Enter());
  if (pPlaneArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return GetPlane(hArray, planeIdx, pPlaneArray);
}

CUresult CUDAAPI cuArrayDestroy(CUarray hArray) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterObject());
  WARPLINE_TRY(AwaitWorkBeforeFree(CurrentDevice()));
  return DestroyArray(hArray);
}

CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray* pHandle,
                                        const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                                        unsigned int numMipmapLevels) {
  WARPLINE_TRY(Enter());
  if (pHandle == nullptr || pMipmappedArrayDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return CreateMipmappedArray(CurrentOwner(), *pMipmappedArrayDesc, numMipmapLevels, pHandle);
}

CUresult CUDAAPI cuMipmappedArrayGetLevel(CUarray* pLevelArray, CUmipmappedArray hMipmappedArray,
                                          unsigned int level) {
  WARPLINE_TRY(Enter());
  if (pLevelArray == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return GetLevel(hMipmappedArray, level, pLevelArray);
}

CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterObject());
  WARPLINE_TRY(AwaitWorkBeforeFree(CurrentDevice()));
  return DestroyMipmappedArray(hMipmappedArray);
}

}  // extern "C"
