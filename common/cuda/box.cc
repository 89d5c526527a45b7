#include "common/cuda/box.h"

#include <algorithm>

namespace warpline {

bool BoxSpan(const BoxPlace& place, const BoxExtent& extent, uint64_t* bytes) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0 || place.pitch < extent.width) {
    return false;
  }
  uint64_t slices = 0;
  if (extent.depth > 1) {
    if (place.slice % place.pitch != 0 || place.slice / place.pitch < extent.height ||
        __builtin_mul_overflow(place.slice, extent.depth - 1, &slices)) {
      return false;
    }
  }
  uint64_t rows, last;
  return !__builtin_mul_overflow(place.pitch, extent.height - 1, &rows) &&
         !__builtin_add_overflow(rows, slices, bytes) &&
         !__builtin_add_overflow(*bytes, extent.width, bytes) &&
         !__builtin_add_overflow(place.address, *bytes, &last);
}

BoxPart PartOfBox(const BoxExtent& extent, uint64_t offset, uint64_t max_bytes) {
  const uint64_t row = offset / extent.width;
  BoxPart part;
  part.x = offset % extent.width;
  part.y = row % extent.height;
  part.z = row / extent.height;
  const uint64_t rows = max_bytes / extent.width;
  if (part.x != 0 || rows == 0) {
    part.extent.width = std::min(extent.width - part.x, max_bytes);
    return part;
  }
  part.extent.width = extent.width;
  if (part.y == 0 && rows >= extent.height) {
    part.extent.height = extent.height;
    part.extent.depth = std::min(rows / extent.height, extent.depth - part.z);
  } else {
    part.extent.height = std::min(rows, extent.height - part.y);
  }
  return part;
}

}  // namespace warpline
