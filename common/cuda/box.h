// Boxes of bytes: what 2D and 3D copies move.
#ifndef WARPLINE_COMMON_CUDA_BOX_H_
#define WARPLINE_COMMON_CUDA_BOX_H_

#include <cstdint>

namespace warpline {

// `depth` slices of `height` rows of `width` bytes.
struct BoxExtent {
  uint64_t width = 0;
  uint64_t height = 1;
  uint64_t depth = 1;

  uint64_t bytes() const { return width * height * depth; }
};

// Where a box lies: its first byte, and the distances from row to row and from slice to slice.
struct BoxPlace {
  uint64_t address = 0;
  uint64_t pitch = 0;
  uint64_t slice = 0;
};

// Sets `*bytes` to the distance from the box's first byte to the end of its last. Returns false for
// what is no box: an extent of 0, rows or slices that overlap, a slice that is not made of whole
// rows (CUDA's descriptors cannot express one), or an end beyond the address space. After true,
// extent.bytes() does not overflow.
bool BoxSpan(const BoxPlace& place, const BoxExtent& extent, uint64_t* bytes);

// A part of a box that is a box itself, and is one run of the box's bytes when these are written
// without gaps.
struct BoxPart {
  uint64_t x = 0;
  uint64_t y = 0;
  uint64_t z = 0;
  BoxExtent extent;

  // The place of this part when the box lies at `place`.
  BoxPlace In(const BoxPlace& place) const {
    return {place.address + z * place.slice + y * place.pitch + x, place.pitch, place.slice};
  }
};

// The largest part, of at most `max_bytes`, that begins `offset` bytes into the box. REQUIRES:
// `offset` is below the extent's bytes, and `max_bytes` is above 0.
BoxPart PartOfBox(const BoxExtent& extent, uint64_t offset, uint64_t max_bytes);

// Calls visit(address, offset, bytes) for every row of the box in order. `offset` is where the row
// would start if the rows were written without gaps.
template <typename Visit>
void ForEachRow(const BoxPlace& place, const BoxExtent& extent, Visit visit) {
  uint64_t offset = 0;
  for (uint64_t z = 0; z < extent.depth; ++z) {
    for (uint64_t y = 0; y < extent.height; ++y) {
      visit(place.address + z * place.slice + y * place.pitch, offset, extent.width);
      offset += extent.width;
    }
  }
}

}  // namespace warpline

#endif  // WARPLINE_COMMON_CUDA_BOX_H_
