// Texture and surface objects.
#include <algorithm>
#include <iterator>

#include "client_stub/core/copy/textures.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"

using namespace warpline::stub;

namespace {

CUresult EnterTexture(uint64_t object, bool is_surface, TextureInfo* info) {
  WARPLINE_TRY(Enter());
  return FindTexture(object, is_surface, info) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuTexObjectCreate(CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc,
                                   const CUDA_TEXTURE_DESC* pTexDesc,
                                   const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) {
  WARPLINE_TRY(Enter());
  if (pTexObject == nullptr || pResDesc == nullptr || pTexDesc == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  TextureInfo info;
  info.context = CurrentOwner();
  info.resource = *pResDesc;
  info.options = *pTexDesc;
  if (pResViewDesc != nullptr) {
    info.view = *pResViewDesc;
    info.has_view = true;
  }
  uint64_t object;
  WARPLINE_TRY(CreateTexture(info, &object));
  *pTexObject = object;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexObjectDestroy(CUtexObject texObject) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(Enter());
  return DestroyTexture(texObject, /*is_surface=*/false);
}

CUresult CUDAAPI cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUtexObject texObject) {
  TextureInfo info;
  WARPLINE_TRY(EnterTexture(texObject, false, &info));
  if (pResDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pResDesc = info.resource;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* pTexDesc, CUtexObject texObject) {
  TextureInfo info;
  WARPLINE_TRY(EnterTexture(texObject, false, &info));
  if (pTexDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pTexDesc = info.options;
  // NVIDIA's driver does not give the border colour back.
  std::fill(std::begin(pTexDesc->borderColor), std::end(pTexDesc->borderColor), 0.0f);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* pResViewDesc,
                                                CUtexObject texObject) {
  TextureInfo info;
  WARPLINE_TRY(EnterTexture(texObject, false, &info));
  if (pResViewDesc == nullptr || !info.has_view) return CUDA_ERROR_INVALID_VALUE;
  *pResViewDesc = info.view;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuSurfObjectCreate(CUsurfObject* pSurfObject, const CUDA_RESOURCE_DESC* pResDesc) {
  WARPLINE_TRY(Enter());
  if (pSurfObject == nullptr || pResDesc == nullptr ||
      pResDesc->resType != CU_RESOURCE_TYPE_ARRAY) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  TextureInfo info;
  info.context = CurrentOwner();
  info.resource = *pResDesc;
  info.is_surface = true;
  uint64_t object;
  WARPLINE_TRY(CreateTexture(info, &object));
  *pSurfObject = object;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuSurfObjectDestroy(CUsurfObject surfObject) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(Enter());
  if (surfObject == 0) return CUDA_SUCCESS;  // This works like free(nullptr); programs rely on it.
  return DestroyTexture(surfObject, /*is_surface=*/true);
}

CUresult CUDAAPI cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc,
                                             CUsurfObject surfObject) {
  TextureInfo info;
  WARPLINE_TRY(EnterTexture(surfObject, true, &info));
  if (pResDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pResDesc = info.resource;
  return CUDA_SUCCESS;
}

}  // extern "C"
