// Descriptions of arrays, textures and tensor maps, for a worker and a device.
// The numbers of kinds, formats, modes and flags are those of cuda.h.
#ifndef WARPLINE_SERVER_DEVICE_FACETS_OBJECTS_H_
#define WARPLINE_SERVER_DEVICE_FACETS_OBJECTS_H_

#include <array>
#include <cstdint>

#include "common/cuda/array_format.h"
#include "common/cuda/box.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// What the functions cuTensorMapEncode* take.
struct TensorMap {
  static constexpr uint32_t kTiled = 0;
  static constexpr uint32_t kIm2col = 1;
  static constexpr uint32_t kIm2colWide = 2;
  static constexpr uint32_t kReplaceAddress = 3;
  static constexpr uint32_t kMaxRank = 5;

  uint32_t kind = 0;
  uint32_t data_type = 0;
  uint32_t rank = 0;
  uint64_t address = 0;
  std::array<uint64_t, kMaxRank> sizes{};
  std::array<uint64_t, kMaxRank> strides{};  // One fewer than there are sizes.
  std::array<uint32_t, kMaxRank> box{};      // For kTiled.
  std::array<uint32_t, kMaxRank> element_strides{};
  std::array<int32_t, 3> lower{};  // For the im2col kinds; kIm2colWide has one.
  std::array<int32_t, 3> upper{};
  uint32_t channels = 0;
  uint32_t pixels = 0;
  uint32_t interleave = 0;
  uint32_t swizzle = 0;
  uint32_t promotion = 0;
  uint32_t fill = 0;
  uint32_t mode = 0;  // For kIm2colWide.
};

// The encoded map, opaque.
using TensorMapBytes = std::array<uint64_t, 16>;

// An array. With `levels` above 0 it is mipmapped.
struct ArrayShape {
  uint64_t width = 0;   // In elements.
  uint64_t height = 0;  // 0 in one dimension.
  uint64_t depth = 0;   // 0 in one and two dimensions; the layers of a layered array.
  uint32_t format = 0;
  uint32_t channels = 0;
  uint32_t flags = 0;
  uint32_t levels = 0;

  // Flags of CUDA_ARRAY3D_*.
  static constexpr uint32_t kLayered = 1;
  static constexpr uint32_t kSparse = 0x40;
  static constexpr uint32_t kDeferredMapping = 0x80;

  ArrayExtents extents() const;
  // The bytes of all elements of all levels, saturating; about what the array takes.
  uint64_t bytes() const;
};

// The size that `extent` has at a level.
uint64_t LevelExtent(uint64_t extent, uint32_t level);

// One end of a copy of which at least one end is an array.
struct ArrayEnd {
  enum class Kind { kArray, kDevice, kHost };
  Kind kind = Kind::kHost;
  ArrayId array{};
  uint32_t device = 0;  // For an array: its context's place in OpenContexts().
  uint64_t x = 0;       // For an array: in bytes, rows and slices.
  uint64_t y = 0;
  uint64_t z = 0;
  BoxPlace place;        // For kDevice.
  void* host = nullptr;  // For kHost: rows without gaps, in memory from AllocStaging.
};

// What cuTexObjectCreate and cuSurfObjectCreate take.
struct Texture {
  // The values of CUresourcetype.
  static constexpr uint32_t kArray = 0;
  static constexpr uint32_t kMipmapped = 1;
  static constexpr uint32_t kLinear = 2;
  static constexpr uint32_t kPitch2D = 3;

  bool is_surface = false;  // A surface has an array and uses nothing else.
  uint32_t kind = 0;
  ArrayId array{};
  uint64_t address = 0;
  uint32_t format = 0;
  uint32_t channels = 0;
  uint64_t width = 0;  // For kLinear, in bytes.
  uint64_t height = 0;
  uint64_t pitch = 0;

  std::array<uint32_t, 3> address_modes{};
  uint32_t filter = 0;
  uint32_t flags = 0;
  uint32_t anisotropy = 0;
  uint32_t level_filter = 0;
  float level_bias = 0;
  float least_level = 0;
  float most_level = 0;
  std::array<float, 4> border{};

  bool has_view = false;
  uint32_t view_format = 0;
  uint64_t view_width = 0;
  uint64_t view_height = 0;
  uint64_t view_depth = 0;
  uint32_t first_level = 0;
  uint32_t last_level = 0;
  uint32_t first_layer = 0;
  uint32_t last_layer = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_OBJECTS_H_
