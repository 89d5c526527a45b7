#include "common/array_format.h"

#include <algorithm>

namespace warpline {

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

}  // namespace warpline
