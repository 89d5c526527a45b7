// Arithmetic rounded towards zero, down or up. It is rare, so it switches the processor's rounding
// mode. Compiled with -frounding-math.
#include <cfenv>

#include "server/device/cpu/alu/alu_float_math.h"

namespace warpline::cpu::WARPLINE_ALU {
namespace {

// Values pass through volatile, so that no operation moves out of the scope of the mode.
template <typename T>
struct Directed {
  struct Add {
    static T Of(volatile T& a, volatile T& b, volatile T&) { return a + b; }
  };
  struct Sub {
    static T Of(volatile T& a, volatile T& b, volatile T&) { return a - b; }
  };
  struct Mul {
    static T Of(volatile T& a, volatile T& b, volatile T&) { return a * b; }
  };
  struct Div {
    static T Of(volatile T& a, volatile T& b, volatile T&) { return a / b; }
  };
  struct Fma {
    static T Of(volatile T& a, volatile T& b, volatile T& c) {
      return FusedMultiplyAdd(T(a), T(b), T(c));
    }
  };
  struct Rcp {
    static T Of(volatile T& a, volatile T&, volatile T&) { return T(1) / a; }
  };
  struct Sqrt {
    static T Of(volatile T& a, volatile T&, volatile T&) { return SquareRoot(T(a)); }
  };
};

// kInputs is the number of operands among which the NaN is chosen (division takes what the
// processor gives). kTiny marks a product, which .ftz flushes before rounding.
template <typename F, typename T, int kRound, bool kFtz, int kInputs, bool kTiny = false>
__attribute__((noinline)) void Run(uint8_t* regs, const Op& op, u32 mask) {
  using M = Mode<kFtz, false>;
  const T* a = Slot<const T>(regs, op.r[1]);
  const T* b = op.r[2] != kNoSlot ? Slot<const T>(regs, op.r[2]) : a;
  const T* c = kInputs > 2 ? Slot<const T>(regs, op.r[3]) : a;
  T* d = Slot<T>(regs, op.r[0]);
  std::fesetround(kRound);
  for (u32 m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    volatile T x = M::In(a[i]), y = M::In(b[i]), z = M::In(c[i]);
    volatile T r = F::Of(x, y, z);
    d[i] = kInputs > 2   ? PickNan(M::Out(r), a[i], b[i], c[i])
           : kInputs > 1 ? PickNan(M::Out(r), a[i], b[i])
                         : M::Out(r);
    if (kFtz && kTiny) {
      const f64 addend = kInputs > 2 ? f64(z) : 0.0;
      d[i] = T(FlushTiny(f32(d[i]), FusedMultiplyAdd(f64(x), f64(y), addend)));
    }
  }
  std::fesetround(FE_TONEAREST);
}

// Conversions that round: from integers, and from f64 to f32.
template <typename D, typename S, int kRound, bool kFtz = false>
__attribute__((noinline)) void Convert(uint8_t* regs, const Op& op, u32 mask) {
  const S* a = Slot<const S>(regs, op.r[1]);
  D* d = Slot<D>(regs, op.r[0]);
  std::fesetround(kRound);
  for (u32 m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    volatile S x = a[i];
    volatile D r = D(x);
    d[i] = kFtz ? D(FlushTiny(f32(r), f64(x))) : D(r);
  }
  std::fesetround(FE_TONEAREST);
}

#define WARPLINE_ARITHMETIC(mode, round, suffix, T, kFtz)                                  \
  Row<T, T, T>("add." mode suffix, Run<Directed<T>::Add, T, round, kFtz, 2>),              \
      Row<T, T, T>("sub." mode suffix, Run<Directed<T>::Sub, T, round, kFtz, 2>),          \
      Row<T, T, T>("mul." mode suffix, Run<Directed<T>::Mul, T, round, kFtz, 2, true>),    \
      Row<T, T, T>("div." mode suffix, Run<Directed<T>::Div, T, round, kFtz, 1>),          \
      Row<T, T, T, T>("fma." mode suffix, Run<Directed<T>::Fma, T, round, kFtz, 3, true>), \
      Row<T, T>("rcp." mode suffix, Run<Directed<T>::Rcp, T, round, kFtz, 1>),             \
      Row<T, T>("sqrt." mode suffix, Run<Directed<T>::Sqrt, T, round, kFtz, 1>)
#define WARPLINE_FROM(mode, round, name, S)                      \
  Row<f32, S>("cvt." mode ".f32." name, Convert<f32, S, round>), \
      Row<f64, S>("cvt." mode ".f64." name, Convert<f64, S, round>)
#define WARPLINE_MODE(mode, round)                                                    \
  WARPLINE_ARITHMETIC(mode, round, ".f32", f32, false),                               \
      WARPLINE_ARITHMETIC(mode, round, ".ftz.f32", f32, true),                        \
      WARPLINE_ARITHMETIC(mode, round, ".f64", f64, false),                           \
      WARPLINE_FROM(mode, round, "u16", u16), WARPLINE_FROM(mode, round, "s16", i16), \
      WARPLINE_FROM(mode, round, "u32", u32), WARPLINE_FROM(mode, round, "s32", i32), \
      WARPLINE_FROM(mode, round, "u64", u64), WARPLINE_FROM(mode, round, "s64", i64), \
      Row<f32, f64>("cvt." mode ".f32.f64", Convert<f32, f64, round>),                \
      Row<f32, f64>("cvt." mode ".ftz.f32.f64", Convert<f32, f64, round, true>)

constexpr AluRow kRows[] = {
    WARPLINE_MODE("rz", FE_TOWARDZERO),
    WARPLINE_MODE("rm", FE_DOWNWARD),
    WARPLINE_MODE("rp", FE_UPWARD),
};

}  // namespace

Rows DirectedRows() { return {std::begin(kRows), std::end(kRows)}; }

}  // namespace warpline::cpu::WARPLINE_ALU
