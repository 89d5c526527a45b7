// cvt: between integers, between integers and floats, between floats.
//
// Lowering extends a source of 8 bits before, and a destination of 8 bits after; here registers
// have 16, 32 or 64 bits.
#include "server/device/cpu/alu/alu_float_math.h"

namespace warpline::cpu::WARPLINE_ALU {
namespace {

template <typename D, typename S>
struct Cast {
  static D Of(S a) { return D(a); }
};

// cvt.sat: N is the range, and D the register that the value goes to.
template <typename D, typename N, typename S>
struct Clamp {
  static D Of(S a) {
    using Wide = __int128;
    constexpr Wide kMin = N(-1) < N(0) ? -(Wide(1) << (sizeof(N) * 8 - 1)) : Wide(0);
    constexpr Wide kMax = (Wide(1) << (sizeof(N) * 8 - (N(-1) < N(0) ? 1 : 0))) - 1;
    const Wide v = a;
    return D(N(v < kMin ? kMin : v > kMax ? kMax : v));
  }
};

enum Rounding { kNearest, kZero, kDown, kUp };

template <Rounding kRound>
inline f64 RoundIntegral(f64 v) {
  switch (kRound) {
    case kNearest:
      return __builtin_rint(v);
    case kZero:
      return __builtin_trunc(v);
    case kDown:
      return __builtin_floor(v);
    default:
      return __builtin_ceil(v);
  }
}
template <Rounding kRound>
inline f32 RoundIntegral(f32 v) {
  switch (kRound) {
    case kNearest:
      return __builtin_rintf(v);
    case kZero:
      return __builtin_truncf(v);
    case kDown:
      return __builtin_floorf(v);
    default:
      return __builtin_ceilf(v);
  }
}

// A value out of range is clamped. A NaN gives 0, but when 64 bits are involved it gives the sign
// bit alone.
template <typename D, typename S, Rounding kRound, bool kFtz>
struct ToInteger {
  static D Of(S a) {
    constexpr bool kSigned = D(-1) < D(0);
    constexpr int kValueBits = int(sizeof(D)) * 8 - (kSigned ? 1 : 0);
    // These are powers of two, which are exact in either format.
    constexpr S kLimit = S(2) * S(u64{1} << (kValueBits - 1));
    constexpr D kMax =
        kSigned ? D((u64{1} << (kValueBits - 1)) - 1 + (u64{1} << (kValueBits - 1))) : D(~u64{0});
    constexpr D kMin = kSigned ? D(-kMax - 1) : D(0);
    if (a != a) {
      const bool wide = sizeof(D) == 8 || sizeof(S) == 8;
      return wide ? D(u64{1} << (sizeof(D) * 8 - 1)) : D(0);
    }
    const S v = RoundIntegral<kRound>(kFtz ? S(Flush(f32(a))) : a);
    if (v >= kLimit) return kMax;
    if (v < (kSigned ? -kLimit : S(0))) return kMin;
    return D(v);
  }
};

template <Rounding kRound, typename T, bool kFtz, bool kSat>
struct Integral {
  static T Of(T a) {
    using M = Mode<kFtz, kSat>;
    const T r = PickNan(M::Out(RoundIntegral<kRound>(M::In(a))), a, a);
    return kSat ? Saturate(r) : r;
  }
};

template <bool kFtz, bool kSat>
struct Same32 {
  static f32 Of(f32 a) { return Mode<kFtz, kSat>::Out(Mode<kFtz, kSat>::In(a)); }
};
struct Same64 {
  static f64 Of(f64 a) { return a; }
};
struct Same64Sat {
  static f64 Of(f64 a) { return Saturate(a); }
};
template <bool kFtz>
struct Widen {
  static f64 Of(f32 a) { return kFtz ? f64(Mode<true, false>::Out(a)) : f64(a); }
};
template <bool kFtz, bool kSat>
struct Narrow {
  static f32 Of(f64 a) {
    const f32 r = kFtz ? FlushTiny(f32(a), a) : f32(a);
    return kSat ? Saturate(r) : r;
  }
};

#define WARPLINE_TO(to, D, from, S) Row1<Cast<D, S>, D, S>("cvt." to "." from)
#define WARPLINE_FROM(from, S)                                                  \
  WARPLINE_TO("u16", u16, from, S), WARPLINE_TO("s16", i16, from, S),           \
      WARPLINE_TO("u32", u32, from, S), WARPLINE_TO("s32", i32, from, S),       \
      WARPLINE_TO("u64", u64, from, S), WARPLINE_TO("s64", i64, from, S),       \
      WARPLINE_TO("rn.f32", f32, from, S), WARPLINE_TO("rn.f64", f64, from, S), \
      Row1<Clamp<u16, uint8_t, S>, u16, S>("cvt.sat.u8." from),                 \
      Row1<Clamp<i16, int8_t, S>, i16, S>("cvt.sat.s8." from),                  \
      Row1<Clamp<u16, u16, S>, u16, S>("cvt.sat.u16." from),                    \
      Row1<Clamp<i16, i16, S>, i16, S>("cvt.sat.s16." from),                    \
      Row1<Clamp<u32, u32, S>, u32, S>("cvt.sat.u32." from),                    \
      Row1<Clamp<i32, i32, S>, i32, S>("cvt.sat.s32." from),                    \
      Row1<Clamp<u64, u64, S>, u64, S>("cvt.sat.u64." from),                    \
      Row1<Clamp<i64, i64, S>, i64, S>("cvt.sat.s64." from)

#define WARPLINE_INT(mode, round, to, D)                                           \
  Row1<ToInteger<D, f32, round, false>, D, f32>("cvt." mode "." to ".f32"),        \
      Row1<ToInteger<D, f32, round, true>, D, f32>("cvt." mode ".ftz." to ".f32"), \
      Row1<ToInteger<D, f64, round, false>, D, f64>("cvt." mode "." to ".f64")
#define WARPLINE_ROUND(mode, round)                                                     \
  WARPLINE_INT(mode, round, "u16", u16), WARPLINE_INT(mode, round, "s16", i16),         \
      WARPLINE_INT(mode, round, "u32", u32), WARPLINE_INT(mode, round, "s32", i32),     \
      WARPLINE_INT(mode, round, "u64", u64), WARPLINE_INT(mode, round, "s64", i64),     \
      Row1<Integral<round, f32, false, false>, f32, f32>("cvt." mode ".f32.f32"),       \
      Row1<Integral<round, f32, true, false>, f32, f32>("cvt." mode ".ftz.f32.f32"),    \
      Row1<Integral<round, f32, false, true>, f32, f32>("cvt." mode ".sat.f32.f32"),    \
      Row1<Integral<round, f32, true, true>, f32, f32>("cvt." mode ".ftz.sat.f32.f32"), \
      Row1<Integral<round, f64, false, false>, f64, f64>("cvt." mode ".f64.f64"),       \
      Row1<Integral<round, f64, false, true>, f64, f64>("cvt." mode ".sat.f64.f64")

constexpr AluRow kRows[] = {
    WARPLINE_FROM("u16", u16),
    WARPLINE_FROM("s16", i16),
    WARPLINE_FROM("u32", u32),
    WARPLINE_FROM("s32", i32),
    WARPLINE_FROM("u64", u64),
    WARPLINE_FROM("s64", i64),
    WARPLINE_ROUND("rni", kNearest),
    WARPLINE_ROUND("rzi", kZero),
    WARPLINE_ROUND("rmi", kDown),
    WARPLINE_ROUND("rpi", kUp),
    Row1<Same32<false, false>, f32, f32>("cvt.f32.f32"),
    Row1<Same32<true, false>, f32, f32>("cvt.ftz.f32.f32"),
    Row1<Same32<false, true>, f32, f32>("cvt.sat.f32.f32"),
    Row1<Same32<true, true>, f32, f32>("cvt.ftz.sat.f32.f32"),
    Row1<Same64, f64, f64>("cvt.f64.f64"),
    Row1<Same64Sat, f64, f64>("cvt.sat.f64.f64"),
    Row1<Widen<false>, f64, f32>("cvt.f64.f32"),
    Row1<Widen<true>, f64, f32>("cvt.ftz.f64.f32"),
    Row1<Narrow<false, false>, f32, f64>("cvt.rn.f32.f64"),
    Row1<Narrow<true, false>, f32, f64>("cvt.rn.ftz.f32.f64"),
    Row1<Narrow<false, true>, f32, f64>("cvt.rn.sat.f32.f64"),
    Row1<Narrow<true, true>, f32, f64>("cvt.rn.ftz.sat.f32.f64"),
};

}  // namespace

Rows ConvertRows() { return {std::begin(kRows), std::end(kRows)}; }

}  // namespace warpline::cpu::WARPLINE_ALU
