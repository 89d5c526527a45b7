// Numbers of 8 bits: E4M3, without infinities, and E5M2.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LIBRARIES_FLOAT8_H_
#define WARPLINE_SERVER_DEVICE_CPU_LIBRARIES_FLOAT8_H_

#include <cmath>
#include <cstdint>
#include <limits>

namespace warpline::cpu {

// `kMantissa` is 3 or 2.
template <int kMantissa>
class Float8 {
 public:
  static double Widen(uint8_t v) {
    const uint8_t size = v & 0x7f;
    if (size > kLargest) {
      constexpr bool kHasInfinity = kMantissa == 2;
      const bool infinite = kHasInfinity && size == kLargest + 1;
      const double wide = infinite ? std::numeric_limits<double>::infinity()
                                   : std::numeric_limits<double>::quiet_NaN();
      return (v & kSign) != 0 ? -wide : wide;
    }
    return (v & kSign) != 0 ? -Size(size) : Size(size);
  }
  // Rounds to the nearest number, and to one with an even last bit between two. Larger numbers
  // become the largest one.
  static uint8_t Narrow(double v) {
    const uint8_t sign = std::signbit(v) ? kSign : 0;
    if (std::isnan(v)) return sign | 0x7f;
    const double size = std::abs(v);
    if (size >= Size(kLargest)) return sign | kLargest;
    // The last number that is not larger.
    uint8_t low = 0, high = kLargest;
    while (high - low > 1) {
      const auto middle = static_cast<uint8_t>((low + high) / 2);
      (Size(middle) <= size ? low : high) = middle;
    }
    const double below = size - Size(low), above = Size(high) - size;
    const bool up = above < below || (above == below && low % 2 != 0);
    return sign | (up ? high : low);
  }

 private:
  static constexpr uint8_t kSign = 0x80;
  static constexpr uint8_t kLargest = kMantissa == 3 ? 0x7e : 0x7b;
  static constexpr int kBias = kMantissa == 3 ? 7 : 15;

  static double Size(uint8_t v) {
    const int exponent = v >> kMantissa, fraction = v & ((1 << kMantissa) - 1);
    return exponent == 0 ? std::ldexp(fraction, 1 - kBias - kMantissa)
                         : std::ldexp(fraction + (1 << kMantissa), exponent - kBias - kMantissa);
  }
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LIBRARIES_FLOAT8_H_
