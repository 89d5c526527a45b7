// A GPU's texture and surface objects, and tensor maps.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_TEXTURES_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_TEXTURES_H_

#include <cstdint>

#include "common/cuda/cuda_result.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/facets/textures.h"

namespace warpline::device {

// Thread-safe, as the driver is.
class CudaTextures : public virtual Textures, protected CudaPart {
 public:
  explicit CudaTextures(CudaMember* member) : CudaPart(*member) {}

  CudaResult CreateTexture(const Texture& texture, uint64_t* object) override;
  CudaResult DestroyTexture(uint64_t object, bool is_surface) override;
  CudaResult LinearTextureWidth(uint32_t format, uint32_t channels, uint64_t* elements) override;
  CudaResult EncodeTensorMap(const TensorMap& request, TensorMapBytes* map) override;

 private:
  bool MayUseMemory(const Texture& texture) const;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_TEXTURES_H_
