#include "server/device/cuda/cuda_textures.h"

#include <algorithm>
#include <cstring>

#include "common/cuda/array_format.h"
#include "server/device/cuda/native.h"

namespace warpline::device {
namespace {

// Sets the resource of the object. Returns false when the kind does not go with the array.
bool SetResource(const Texture& texture, CUDA_RESOURCE_DESC* native) {
  const bool mipmapped = IsMipmapped(texture.array);
  native->resType = static_cast<CUresourcetype>(texture.kind);
  switch (texture.kind) {
    case Texture::kArray:
      native->res.array.hArray = NativeArray(texture.array);
      return texture.array != ArrayId{} && !mipmapped;
    case Texture::kMipmapped:
      native->res.mipmap.hMipmappedArray = NativeMipmapped(texture.array);
      return mipmapped;
    case Texture::kLinear:
      native->res.linear.devPtr = texture.address;
      native->res.linear.format = static_cast<CUarray_format>(texture.format);
      native->res.linear.numChannels = texture.channels;
      native->res.linear.sizeInBytes = texture.width;
      return true;
    case Texture::kPitch2D:
      native->res.pitch2D.devPtr = texture.address;
      native->res.pitch2D.format = static_cast<CUarray_format>(texture.format);
      native->res.pitch2D.numChannels = texture.channels;
      native->res.pitch2D.width = texture.width;
      native->res.pitch2D.height = texture.height;
      native->res.pitch2D.pitchInBytes = texture.pitch;
      return true;
    default:
      return false;
  }
}

// Whether a row takes no more bytes than there are from row to row; no for formats whose elements
// have no size of their own, which lie in arrays alone.
bool RowsFit(const Texture& texture) {
  const uint64_t element = ArrayElementBytes(texture.format, texture.channels);
  return element != 0 && texture.width <= texture.pitch / element;
}

void SetOptions(const Texture& texture, CUDA_TEXTURE_DESC* native) {
  for (size_t i = 0; i < texture.address_modes.size(); ++i) {
    native->addressMode[i] = static_cast<CUaddress_mode>(texture.address_modes[i]);
  }
  native->filterMode = static_cast<CUfilter_mode>(texture.filter);
  native->flags = texture.flags;
  native->maxAnisotropy = texture.anisotropy;
  native->mipmapFilterMode = static_cast<CUfilter_mode>(texture.level_filter);
  native->mipmapLevelBias = texture.level_bias;
  native->minMipmapLevelClamp = texture.least_level;
  native->maxMipmapLevelClamp = texture.most_level;
  std::copy(texture.border.begin(), texture.border.end(), native->borderColor);
}

void SetView(const Texture& texture, CUDA_RESOURCE_VIEW_DESC* native) {
  native->format = static_cast<CUresourceViewFormat>(texture.view_format);
  native->width = texture.view_width;
  native->height = texture.view_height;
  native->depth = texture.view_depth;
  native->firstMipmapLevel = texture.first_level;
  native->lastMipmapLevel = texture.last_level;
  native->firstLayer = texture.first_layer;
  native->lastLayer = texture.last_layer;
}

}  // namespace

// The memory of a texture without an array lies in the arena, the end of its last row too. Only
// arrays have views.
bool CudaTextures::MayUseMemory(const Texture& texture) const {
  if (texture.kind != Texture::kLinear && texture.kind != Texture::kPitch2D) return true;
  const bool rows = texture.kind == Texture::kPitch2D;
  if (texture.has_view || (rows && !RowsFit(texture))) return false;
  const auto span = gate().AdmitElements(texture.address, rows ? texture.pitch : texture.width,
                                         rows ? texture.height : 1, MemoryUse::kRead);
  return span && span->kind() == MemoryKind::kArena;
}

CudaResult CudaTextures::CreateTexture(const Texture& texture, uint64_t* object) {
  Enter();
  if (!MayUseMemory(texture)) return CudaResult::kInvalidValue;
  CUDA_RESOURCE_DESC resource = {};
  if (!SetResource(texture, &resource)) return CudaResult::kInvalidValue;
  if (texture.is_surface) {
    CUsurfObject made = 0;
    const CUresult result = api_->p_cuSurfObjectCreate(&made, &resource);
    *object = made;
    return ToResult(result);
  }
  CUDA_TEXTURE_DESC options = {};
  SetOptions(texture, &options);
  CUDA_RESOURCE_VIEW_DESC view = {};
  SetView(texture, &view);
  CUtexObject made = 0;
  const CUresult result =
      api_->p_cuTexObjectCreate(&made, &resource, &options, texture.has_view ? &view : nullptr);
  *object = made;
  return ToResult(result);
}

CudaResult CudaTextures::DestroyTexture(uint64_t object, bool is_surface) {
  Enter();
  return ToResult(is_surface ? api_->p_cuSurfObjectDestroy(object)
                             : api_->p_cuTexObjectDestroy(object));
}

CudaResult CudaTextures::LinearTextureWidth(uint32_t format, uint32_t channels,
                                            uint64_t* elements) {
  size_t most = 0;
  const CUresult result = api_->p_cuDeviceGetTexture1DLinearMaxWidth(
      &most, static_cast<CUarray_format>(format), channels, device_);
  *elements = most;
  return ToResult(result);
}

CudaResult CudaTextures::EncodeTensorMap(const TensorMap& request, TensorMapBytes* map) {
  Enter();
  if (request.kind != TensorMap::kReplaceAddress &&
      (request.rank == 0 || request.rank > TensorMap::kMaxRank)) {
    return CudaResult::kInvalidValue;
  }
  CUtensorMap native;
  static_assert(sizeof(native) == sizeof(*map));
  std::memcpy(&native, map->data(), sizeof(native));
  const auto type = static_cast<CUtensorMapDataType>(request.data_type);
  void* const address = reinterpret_cast<void*>(request.address);
  const auto interleave = static_cast<CUtensorMapInterleave>(request.interleave);
  const auto swizzle = static_cast<CUtensorMapSwizzle>(request.swizzle);
  const auto promotion = static_cast<CUtensorMapL2promotion>(request.promotion);
  const auto fill = static_cast<CUtensorMapFloatOOBfill>(request.fill);
  static_assert(sizeof(cuuint64_t) == sizeof(uint64_t));
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  switch (request.kind) {
    case TensorMap::kTiled:
      result = api_->p_cuTensorMapEncodeTiled(
          &native, type, request.rank, address, request.sizes.data(), request.strides.data(),
          request.box.data(), request.element_strides.data(), interleave, swizzle, promotion, fill);
      break;
    case TensorMap::kIm2col:
      result = api_->p_cuTensorMapEncodeIm2col(
          &native, type, request.rank, address, request.sizes.data(), request.strides.data(),
          request.lower.data(), request.upper.data(), request.channels, request.pixels,
          request.element_strides.data(), interleave, swizzle, promotion, fill);
      break;
    case TensorMap::kIm2colWide:
      if (api_->p_cuTensorMapEncodeIm2colWide == nullptr) return CudaResult::kNotSupported;
      result = api_->p_cuTensorMapEncodeIm2colWide(
          &native, type, request.rank, address, request.sizes.data(), request.strides.data(),
          request.lower[0], request.upper[0], request.channels, request.pixels,
          request.element_strides.data(), interleave,
          static_cast<CUtensorMapIm2ColWideMode>(request.mode), swizzle, promotion, fill);
      break;
    case TensorMap::kReplaceAddress:
      result = api_->p_cuTensorMapReplaceAddress(&native, address);
      break;
    default:
      break;
  }
  if (result == CUDA_SUCCESS) std::memcpy(map->data(), &native, sizeof(native));
  return ToResult(result);
}

}  // namespace warpline::device
