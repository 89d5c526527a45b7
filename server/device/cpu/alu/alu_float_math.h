// Scalar floating-point rules of PTX: flushing of subnormals, canonical NaNs, saturation. Private
// to the alu_*.cc files.
#ifndef WARPLINE_SERVER_DEVICE_CPU_ALU_ALU_FLOAT_MATH_H_
#define WARPLINE_SERVER_DEVICE_CPU_ALU_ALU_FLOAT_MATH_H_

#include "server/device/cpu/alu/alu_lanes.h"

namespace warpline::cpu::WARPLINE_ALU {
namespace {

inline u32 BitsOf(f32 v) { return __builtin_bit_cast(u32, v); }
inline u64 BitsOf(f64 v) { return __builtin_bit_cast(u64, v); }
inline f32 FromBits(u32 v) { return __builtin_bit_cast(f32, v); }
inline f64 FromBits(u64 v) { return __builtin_bit_cast(f64, v); }

// NVIDIA's f32 instructions give this NaN whatever NaN went in; x86 gives others.
inline f32 Canonical(f32 v) { return v == v ? v : FromBits(u32{0x7fffffff}); }
inline f64 Canonical(f64 v) { return v; }

// f64 instructions pass on a NaN among their operands, made quiet: the second operand's before the
// third's, and that before the first's.
inline f64 Quiet(f64 v) { return FromBits(BitsOf(v) | u64{1} << 51); }
inline f32 PickNan(f32 r, f32, f32) { return r; }
inline f32 PickNan(f32 r, f32, f32, f32) { return r; }
inline f64 PickNan(f64 r, f64 a, f64 b) {
  return r == r ? r : b != b ? Quiet(b) : a != a ? Quiet(a) : r;
}
inline f64 PickNan(f64 r, f64 a, f64 b, f64 c) { return PickNan(r, c != c ? c : a, b); }

// Turns a subnormal into a zero of its sign.
inline f32 Flush(f32 v) {
  const u32 bits = BitsOf(v);
  return FromBits((bits & 0x7f800000) == 0 ? bits & 0x80000000 : bits);
}
// Clamps to [0, 1]; NaN becomes 0.
inline f32 Saturate(f32 v) { return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; }
inline f64 Saturate(f64 v) { return v > 0.0 ? (v < 1.0 ? v : 1.0) : 0.0; }

// What .ftz and .sat do around an operation on f32.
template <bool kFtz, bool kSat>
struct Mode {
  static f32 In(f32 v) { return kFtz ? Flush(v) : v; }
  static f32 Out(f32 v) {
    const f32 r = kFtz ? Flush(Canonical(v)) : Canonical(v);
    return kSat ? Saturate(r) : r;
  }
  static f64 In(f64 v) { return v; }
  static f64 Out(f64 v) { return v; }
};

// With .ftz, a product that is subnormal before rounding is flushed, even if it would round to the
// least normal number. `exact` is the product with more bits than the result has.
inline f32 FlushTiny(f32 r, f64 exact) {
  const f64 least = 0x1p-126;
  return exact < least && exact > -least ? FromBits(BitsOf(r) & 0x80000000) : r;
}

inline f32 FusedMultiplyAdd(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
inline f64 FusedMultiplyAdd(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
inline f32 SquareRoot(f32 a) { return __builtin_sqrtf(a); }
inline f64 SquareRoot(f64 a) { return __builtin_sqrt(a); }

}  // namespace
}  // namespace warpline::cpu::WARPLINE_ALU

#endif  // WARPLINE_SERVER_DEVICE_CPU_ALU_ALU_FLOAT_MATH_H_
