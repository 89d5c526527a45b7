#include "server/device/facets/objects.h"

namespace warpline::device {

ArrayExtents ArrayShape::extents() const {
  return {width, height, depth, format, channels, flags, levels};
}

uint64_t ArrayShape::bytes() const { return ArrayBytes(extents()); }

uint64_t LevelExtent(uint64_t extent, uint32_t level) { return ArrayLevelExtent(extent, level); }

}  // namespace warpline::device
