// A context's texture and surface objects, which are numbers that kernels get as parameters, and
// tensor maps, which are parameters themselves.
//
//   uint64_t object;
//   CudaResult result = textures->CreateTexture(texture, &object);
#ifndef WARPLINE_SERVER_DEVICE_FACETS_TEXTURES_H_
#define WARPLINE_SERVER_DEVICE_FACETS_TEXTURES_H_

#include <cstdint>

#include "common/cuda/cuda_result.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/objects.h"

namespace warpline::device {

// Thread-safe.
class Textures {
 public:
  static constexpr Capabilities kGives =
      Capabilities(Capability::kTextures) | Capability::kTensorMaps;

  virtual ~Textures() = default;

  // The texture's memory must lie within the arena.
  virtual CudaResult CreateTexture(const Texture& texture, uint64_t* object) = 0;
  virtual CudaResult DestroyTexture(uint64_t object, bool is_surface) = 0;
  // How many elements of a CUarray_format with so many channels a texture of linear memory may
  // have.
  virtual CudaResult LinearTextureWidth(uint32_t format, uint32_t channels, uint64_t* elements) = 0;
  // With kReplaceAddress, `*map` is also read.
  virtual CudaResult EncodeTensorMap(const TensorMap& request, TensorMapBytes* map) = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_TEXTURES_H_
