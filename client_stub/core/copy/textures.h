// Texture and surface objects: the numbers that the server gives out and kernels know, and the
// descriptions that they were made of.
#ifndef WARPLINE_CLIENT_STUB_CORE_COPY_TEXTURES_H_
#define WARPLINE_CLIENT_STUB_CORE_COPY_TEXTURES_H_

#include <cstdint>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/runtime/objects.h"

namespace warpline::stub {

struct TextureInfo {
  const Context* context = nullptr;
  CUDA_RESOURCE_DESC resource = {};
  CUDA_TEXTURE_DESC options = {};
  CUDA_RESOURCE_VIEW_DESC view = {};
  bool has_view = false;
  bool is_surface = false;
};

// Waits for the server. CUDA_ERROR_INVALID_VALUE for a wrong description.
CUresult CreateTexture(const TextureInfo& info, uint64_t* object);
// Returns false for a number that is no object of that kind.
bool FindTexture(uint64_t object, bool is_surface, TextureInfo* info);
// CUDA_ERROR_INVALID_VALUE for a number that is no object of that kind.
CUresult DestroyTexture(uint64_t object, bool is_surface);
void DestroyTexturesOf(const Context* context);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_COPY_TEXTURES_H_
