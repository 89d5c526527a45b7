// Sizes of CUDA's array formats.
#ifndef WARPLINE_COMMON_ARRAY_FORMAT_H_
#define WARPLINE_COMMON_ARRAY_FORMAT_H_

#include <cstdint>

namespace warpline {

// Bytes of one component of a CUarray_format that is a plain number; 0 for any other.
uint64_t ArrayComponentBytes(uint32_t format);

// Bytes of an element of `channels` components; 0 for formats without elements of their own
// (compressed and planar ones), and for unknown ones.
uint64_t ArrayElementBytes(uint32_t format, uint32_t channels);

}  // namespace warpline

#endif  // WARPLINE_COMMON_ARRAY_FORMAT_H_
