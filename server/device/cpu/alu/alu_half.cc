// f16, bf16 and pairs of them in one register.
#include "server/device/cpu/alu/alu_float_math.h"
#include "server/device/cpu/alu/half_float.h"

namespace warpline::cpu::WARPLINE_ALU {
namespace {

template <typename H>
struct HalfOps {
  struct Add {
    static u16 Of(u16 a, u16 b) { return H::Add(a, b); }
  };
  struct Sub {
    static u16 Of(u16 a, u16 b) { return H::Sub(a, b); }
  };
  struct Mul {
    static u16 Of(u16 a, u16 b) { return H::Mul(a, b); }
  };
  struct Fma {
    static u16 Of(u16 a, u16 b, u16 c) { return H::Fma(a, b, c); }
  };
  struct AddSat {
    static u16 Of(u16 a, u16 b) { return H::Saturate(H::Add(a, b)); }
  };
  struct SubSat {
    static u16 Of(u16 a, u16 b) { return H::Saturate(H::Sub(a, b)); }
  };
  struct MulSat {
    static u16 Of(u16 a, u16 b) { return H::Saturate(H::Mul(a, b)); }
  };
  struct FmaSat {
    static u16 Of(u16 a, u16 b, u16 c) { return H::Saturate(H::Fma(a, b, c)); }
  };
  struct FmaRelu {
    static u16 Of(u16 a, u16 b, u16 c) { return H::Relu(H::Fma(a, b, c)); }
  };
  struct Min {
    static u16 Of(u16 a, u16 b) { return H::Min(a, b); }
  };
  struct Max {
    static u16 Of(u16 a, u16 b) { return H::Max(a, b); }
  };
  struct MinNan {
    static u16 Of(u16 a, u16 b) { return H::IsNan(a) || H::IsNan(b) ? H::kNan : H::Min(a, b); }
  };
  struct MaxNan {
    static u16 Of(u16 a, u16 b) { return H::IsNan(a) || H::IsNan(b) ? H::kNan : H::Max(a, b); }
  };
  struct Neg {
    static u16 Of(u16 a) { return u16(a ^ 0x8000); }
  };
  struct Abs {
    static u16 Of(u16 a) { return u16(a & 0x7fff); }
  };
  struct Ex2 {
    static u16 Of(u16 a) { return H::Narrow(__builtin_exp2f(f32(H::Widen(a)))); }
  };
  struct Tanh {
    static u16 Of(u16 a) { return H::Narrow(__builtin_tanhf(f32(H::Widen(a)))); }
  };
  struct Relu {
    static u16 Of(u16 a) { return H::Relu(a); }
  };
  struct Saturate {
    static u16 Of(u16 a) { return H::Saturate(a); }
  };
  struct To32 {
    static f32 Of(u16 a) { return Canonical(f32(H::Widen(a))); }
  };
  struct To64 {
    static f64 Of(u16 a) { return H::Widen(a); }
  };
  template <HalfRound kRound>
  struct From {
    static u16 Of(f64 a) { return H::template Narrow<kRound>(a); }
  };
};

// Applies F to both halves of a register.
template <typename F>
struct Both {
  static u32 Of(u32 a) { return u32(F::Of(u16(a))) | u32(F::Of(u16(a >> 16))) << 16; }
  static u32 Of(u32 a, u32 b) {
    return u32(F::Of(u16(a), u16(b))) | u32(F::Of(u16(a >> 16), u16(b >> 16))) << 16;
  }
  static u32 Of(u32 a, u32 b, u32 c) {
    return u32(F::Of(u16(a), u16(b), u16(c))) | u32(F::Of(u16(a >> 16), u16(b >> 16), u16(c >> 16)))
                                                    << 16;
  }
};

// Rounds to 10 bits of fraction, ties away from zero or to even, still in the layout of f32.
template <bool kEven>
struct Tf32 {
  static u32 Of(f32 a) {
    const u32 bits = BitsOf(a);
    if (a != a) return 0x7fffffff;
    if ((bits & 0x7f800000) == 0x7f800000) return bits;
    const u32 bias = kEven ? 0xfff + (bits >> 13 & 1) : 0x1000;
    return (bits + bias) & ~u32{0x1fff};
  }
};

template <typename F, typename T>
constexpr AluRow Slow1(const char* mnemonic) {
  return Row<T, T>(mnemonic, SlowUnary<F, T, T>);
}
template <typename F, typename T>
constexpr AluRow Slow2(const char* mnemonic) {
  return Row<T, T, T>(mnemonic, SlowBinary<F, T, T, T>);
}
template <typename F, typename T>
constexpr AluRow Slow3(const char* mnemonic) {
  return Row<T, T, T, T>(mnemonic, SlowTernary<F, T, T, T, T>);
}

// NOLINTBEGIN(bugprone-macro-parentheses): they name members and templates.
#define WARPLINE_HALF(Slow, op, Name, type, H) \
  Slow<HalfOps<H>::Name, u16>(op "." type), Slow<Both<HalfOps<H>::Name>, u32>(op "." type "x2")
#define WARPLINE_HALVES(type, H)                                                                   \
  WARPLINE_HALF(Slow2, "add", Add, type, H), WARPLINE_HALF(Slow2, "sub", Sub, type, H),            \
      WARPLINE_HALF(Slow2, "mul", Mul, type, H), WARPLINE_HALF(Slow3, "fma", Fma, type, H),        \
      WARPLINE_HALF(Slow2, "add.sat", AddSat, type, H),                                            \
      WARPLINE_HALF(Slow2, "sub.sat", SubSat, type, H),                                            \
      WARPLINE_HALF(Slow2, "mul.sat", MulSat, type, H),                                            \
      WARPLINE_HALF(Slow3, "fma.sat", FmaSat, type, H),                                            \
      WARPLINE_HALF(Slow3, "fma.relu", FmaRelu, type, H),                                          \
      WARPLINE_HALF(Slow2, "min", Min, type, H), WARPLINE_HALF(Slow2, "max", Max, type, H),        \
      WARPLINE_HALF(Slow2, "min.NaN", MinNan, type, H),                                            \
      WARPLINE_HALF(Slow2, "max.NaN", MaxNan, type, H), WARPLINE_HALF(Slow1, "neg", Neg, type, H), \
      WARPLINE_HALF(Slow1, "abs", Abs, type, H), WARPLINE_HALF(Slow1, "ex2.approx", Ex2, type, H), \
      WARPLINE_HALF(Slow1, "tanh.approx", Tanh, type, H),                                          \
      WARPLINE_HALF(Slow1, "relu", Relu, type, H), WARPLINE_HALF(Slow1, "sat", Saturate, type, H), \
      Row<f32, u16>("cvt.f32." type, SlowUnary<HalfOps<H>::To32, f32, u16>),                       \
      Row<f64, u16>("cvt.f64." type, SlowUnary<HalfOps<H>::To64, f64, u16>),                       \
      WARPLINE_FROM("rn", HalfRound::kNearest, type, H),                                           \
      WARPLINE_FROM("rz", HalfRound::kZero, type, H),                                              \
      WARPLINE_FROM("rm", HalfRound::kDown, type, H), WARPLINE_FROM("rp", HalfRound::kUp, type, H)
#define WARPLINE_FROM(mode, round, type, H)                                                 \
  Row<u16, f32>("cvt." mode "." type ".f32", SlowUnary<HalfOps<H>::From<round>, u16, f32>), \
      Row<u16, f64>("cvt." mode "." type ".f64", SlowUnary<HalfOps<H>::From<round>, u16, f64>)
// NOLINTEND(bugprone-macro-parentheses)

constexpr AluRow kRows[] = {
    WARPLINE_HALVES("f16", F16),
    WARPLINE_HALVES("bf16", Bf16),
    Row<u32, f32>("cvt.rna.tf32.f32", SlowUnary<Tf32<false>, u32, f32>),
    Row<u32, f32>("cvt.rn.tf32.f32", SlowUnary<Tf32<true>, u32, f32>),
};

}  // namespace

Rows HalfRows() { return {std::begin(kRows), std::end(kRows)}; }

}  // namespace warpline::cpu::WARPLINE_ALU
