// f16 and bf16 as bit patterns: conversion, and arithmetic that is rounded once.
//
// Private to the alu_*.cc files and the atomics, which are compiled for several instruction sets,
// so everything here is local to its file.
#ifndef WARPLINE_SERVER_DEVICE_CPU_ALU_HALF_FLOAT_H_
#define WARPLINE_SERVER_DEVICE_CPU_ALU_HALF_FLOAT_H_

#include <cstdint>

namespace warpline::cpu {
namespace {  // NOLINT(google-build-namespaces): see above.

enum class HalfRound { kNearest, kZero, kDown, kUp };

// A format of 16 bits with kMantissa bits of fraction.
template <int kMantissa>
struct HalfFormat {
  static constexpr int kBias = (1 << (14 - kMantissa)) - 1;
  static constexpr uint16_t kInfinity = static_cast<uint16_t>(0x7fff >> kMantissa << kMantissa);
  static constexpr uint16_t kNan = 0x7fff;  // What NVIDIA's instructions give

  static bool IsNan(uint16_t v) { return (v & 0x7fff) > kInfinity; }

  static double Widen(uint16_t v) {
    const uint64_t sign = static_cast<uint64_t>(v & 0x8000) << 48;
    const int exponent = (v & 0x7fff) >> kMantissa;
    const auto fraction = static_cast<uint64_t>(v & ((1 << kMantissa) - 1));
    if (exponent == kInfinity >> kMantissa) {
      return __builtin_bit_cast(double,
                                sign | uint64_t{0x7ff} << 52 | fraction << (52 - kMantissa));
    }
    if (exponent == 0) {
      const double scale =
          __builtin_bit_cast(double, static_cast<uint64_t>(1023 + 1 - kBias - kMantissa) << 52);
      const double size = static_cast<double>(static_cast<int64_t>(fraction)) * scale;
      return __builtin_bit_cast(double, sign | __builtin_bit_cast(uint64_t, size));
    }
    return __builtin_bit_cast(double, sign | static_cast<uint64_t>(exponent - kBias + 1023) << 52 |
                                          fraction << (52 - kMantissa));
  }

  template <HalfRound kRound = HalfRound::kNearest>
  static uint16_t Narrow(double v) {
    const auto bits = __builtin_bit_cast(uint64_t, v);
    const auto sign = static_cast<uint16_t>(bits >> 48 & 0x8000);
    const bool negative = sign != 0;
    const int biased = static_cast<int>(bits >> 52 & 0x7ff);
    const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
    if (biased == 0x7ff) return fraction != 0 ? kNan : static_cast<uint16_t>(sign | kInfinity);
    if (biased == 0 && fraction == 0) return sign;
    const int exponent = biased == 0 ? -1022 : biased - 1023;
    const uint64_t significand = biased == 0 ? fraction : fraction | uint64_t{1} << 52;
    const int least = 1 - kBias;
    int shift = 52 - kMantissa + (exponent < least ? least - exponent : 0);
    if (shift > 55) shift = 55;
    uint64_t quotient = significand >> shift;
    const uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
    const uint64_t half = uint64_t{1} << (shift - 1);
    bool up = false;
    switch (kRound) {
      case HalfRound::kNearest:
        up = rest > half || (rest == half && (quotient & 1) != 0);
        break;
      case HalfRound::kZero:
        break;
      case HalfRound::kDown:
        up = negative && rest != 0;
        break;
      case HalfRound::kUp:
        up = !negative && rest != 0;
        break;
    }
    if (up) ++quotient;
    uint64_t out = quotient;
    if (exponent >= least) out += static_cast<uint64_t>(exponent + kBias - 1) << kMantissa;
    if (exponent > kBias || out >= kInfinity) {
      const bool to_infinity = kRound == HalfRound::kNearest ||
                               (kRound == HalfRound::kDown && negative) ||
                               (kRound == HalfRound::kUp && !negative);
      out = to_infinity ? kInfinity : static_cast<uint64_t>(kInfinity - 1);
    }
    return static_cast<uint16_t>(sign | out);
  }

  // Returns a sum that keeps, in its last bit, whether anything was lost, so that rounding it again
  // is right.
  static double SumToOdd(double a, double b) {
    const double sum = a + b;
    const double part = sum - a;
    const double error = (a - (sum - part)) + (b - part);
    auto bits = __builtin_bit_cast(uint64_t, sum);
    if (error == 0 || error != error || (bits & 1) != 0) return sum;
    bits += (error > 0) == (sum > 0) ? 1 : static_cast<uint64_t>(-1);
    return __builtin_bit_cast(double, bits);
  }

  static uint16_t Add(uint16_t a, uint16_t b) { return Narrow(SumToOdd(Widen(a), Widen(b))); }
  static uint16_t Sub(uint16_t a, uint16_t b) { return Narrow(SumToOdd(Widen(a), -Widen(b))); }
  static uint16_t Mul(uint16_t a, uint16_t b) { return Narrow(Widen(a) * Widen(b)); }
  static uint16_t Fma(uint16_t a, uint16_t b, uint16_t c) {
    return Narrow(SumToOdd(Widen(a) * Widen(b), Widen(c)));
  }
  // A NaN loses against a number, and -0 is below +0.
  static uint16_t Min(uint16_t a, uint16_t b) {
    if (IsNan(a)) return IsNan(b) ? kNan : b;
    if (IsNan(b)) return a;
    const double x = Widen(a), y = Widen(b);
    if (x == y) return (a & 0x8000) != 0 ? a : b;
    return x < y ? a : b;
  }
  static uint16_t Max(uint16_t a, uint16_t b) {
    if (IsNan(a)) return IsNan(b) ? kNan : b;
    if (IsNan(b)) return a;
    const double x = Widen(a), y = Widen(b);
    if (x == y) return (a & 0x8000) != 0 ? b : a;
    return x > y ? a : b;
  }
  static uint16_t Saturate(uint16_t v) {
    if (IsNan(v) || (v & 0x8000) != 0) return 0;
    constexpr auto kOne = static_cast<uint16_t>(kBias << kMantissa);
    return v > kOne ? kOne : v;
  }
  static uint16_t Relu(uint16_t v) { return IsNan(v) ? kNan : (v & 0x8000) != 0 ? uint16_t{0} : v; }
};

using F16 = HalfFormat<10>;
using Bf16 = HalfFormat<7>;

}  // namespace
}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_ALU_HALF_FLOAT_H_
