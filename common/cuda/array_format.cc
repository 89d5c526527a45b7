#include "common/cuda/array_format.h"

#include <algorithm>

namespace warpline {
namespace {

constexpr uint32_t kLayered = 1;  // CUDA_ARRAY3D_LAYERED
constexpr uint64_t kGranularity = 64u << 10;
constexpr uint32_t kMostLevels = 64;

uint64_t Multiply(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? ~uint64_t{0} : product;
}

}  // namespace

uint64_t ArrayComponentBytes(uint32_t format) {
  switch (format) {
    case 0x01:  // CU_AD_FORMAT_UNSIGNED_INT8
    case 0x08:  // CU_AD_FORMAT_SIGNED_INT8
      return 1;
    case 0x02:  // CU_AD_FORMAT_UNSIGNED_INT16
    case 0x09:  // CU_AD_FORMAT_SIGNED_INT16
    case 0x10:  // CU_AD_FORMAT_HALF
      return 2;
    case 0x03:  // CU_AD_FORMAT_UNSIGNED_INT32
    case 0x0a:  // CU_AD_FORMAT_SIGNED_INT32
    case 0x20:  // CU_AD_FORMAT_FLOAT
      return 4;
    default:
      return 0;
  }
}

uint64_t ArrayElementBytes(uint32_t format, uint32_t channels) {
  if (const uint64_t component = ArrayComponentBytes(format); component != 0) {
    return component * std::min(channels, 4u);
  }
  // The normalized formats have their channels, 1, 2 and 4, in the number.
  constexpr uint32_t kUnsigned8 = 0xc0, kUnsigned16 = 0xc3, kSigned8 = 0xc6, kSigned16 = 0xc9;
  constexpr uint32_t kEnd = 0xcc, kUnsigned1010102 = 0x50;
  if (format == kUnsigned1010102) return 4;
  if (format < kUnsigned8 || format >= kEnd) return 0;
  if (format < kUnsigned16) return 1u << (format - kUnsigned8);
  if (format < kSigned8) return 2u << (format - kUnsigned16);
  if (format < kSigned16) return 1u << (format - kSigned8);
  return 2u << (format - kSigned16);
}

uint64_t ArrayLevelExtent(uint64_t extent, uint32_t level) {
  return std::max<uint64_t>(level < kMostLevels ? extent >> level : 0, 1);
}

uint64_t ArrayBytes(const ArrayExtents& of) {
  // An upper bound of the bytes of one element of a compressed or planar format.
  constexpr uint64_t kMostElementBytes = 16;
  const uint64_t known = ArrayElementBytes(of.format, of.channels);
  const uint64_t element = known != 0 ? known : kMostElementBytes;
  uint64_t total = 0;
  for (uint32_t level = 0; level < std::max(of.levels, 1u) && level < kMostLevels; ++level) {
    const uint64_t slices = (of.flags & kLayered) != 0 ? std::max<uint64_t>(of.depth, 1)
                                                       : ArrayLevelExtent(of.depth, level);
    uint64_t bytes = Multiply(ArrayLevelExtent(of.width, level), element);
    bytes = Multiply(bytes, ArrayLevelExtent(of.height, level));
    bytes = Multiply(bytes, slices);
    if (__builtin_add_overflow(total, bytes, &total)) return ~uint64_t{0};
  }
  return total;
}

uint64_t ArrayChargedBytes(const ArrayExtents& extents) {
  const uint64_t bytes = ArrayBytes(extents);
  if (bytes > ~uint64_t{0} - kGranularity) return bytes;
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

}  // namespace warpline
