// Sizes of CUDA's array formats.
#ifndef WARPLINE_COMMON_CUDA_ARRAY_FORMAT_H_
#define WARPLINE_COMMON_CUDA_ARRAY_FORMAT_H_

#include <cstdint>

namespace warpline {

// Bytes of one component of a CUarray_format that is a plain number; 0 for any other.
uint64_t ArrayComponentBytes(uint32_t format);

// Bytes of an element of `channels` components; 0 for formats without elements of their own
// (compressed and planar ones), and for unknown ones.
uint64_t ArrayElementBytes(uint32_t format, uint32_t channels);

// The shape of an array as cuda.h describes it. With `levels` above 0 the array is mipmapped.
struct ArrayExtents {
  uint64_t width = 0;
  uint64_t height = 0;
  uint64_t depth = 0;
  uint32_t format = 0;
  uint32_t channels = 0;
  uint32_t flags = 0;
  uint32_t levels = 0;
};

// The extent at level `level` of an array that has `extent` elements at level 0.
uint64_t ArrayLevelExtent(uint64_t extent, uint32_t level);

// An upper bound of the bytes of all levels: for formats without elements of their own not even the
// device tells the exact number. Returns the largest number where they cannot be counted.
uint64_t ArrayBytes(const ArrayExtents& of);

// The bytes that an array counts against its session's quota. The device's own books are finer, and
// its rounding is coarser.
uint64_t ArrayChargedBytes(const ArrayExtents& extents);

}  // namespace warpline

#endif  // WARPLINE_COMMON_CUDA_ARRAY_FORMAT_H_
