// Floating-point arithmetic, rounded to nearest.
#include "server/device/cpu/alu/alu_float_math.h"

namespace warpline::cpu::WARPLINE_ALU {
namespace {

template <typename T, bool kFtz, bool kSat = false>
struct Float {
  using M = Mode<kFtz, kSat>;
  struct Add {
    static T Of(T a, T b) { return PickNan(M::Out(M::In(a) + M::In(b)), a, b); }
  };
  struct Sub {
    static T Of(T a, T b) { return PickNan(M::Out(M::In(a) - M::In(b)), a, b); }
  };
  struct Mul {
    static T Of(T a, T b) {
      const T x = M::In(a), y = M::In(b);
      return kFtz ? T(M::Out(FlushTiny(f32(x * y), f64(x) * f64(y))))
                  : PickNan(M::Out(x * y), a, b);
    }
  };
  struct Div {
    static T Of(T a, T b) { return M::Out(M::In(a) / M::In(b)); }
  };
  struct Fma {
    static T Of(T a, T b, T c) {
      const T x = M::In(a), y = M::In(b), z = M::In(c);
      const T r = FusedMultiplyAdd(x, y, z);
      if (kFtz) return T(M::Out(FlushTiny(f32(r), FusedMultiplyAdd(f64(x), f64(y), f64(z)))));
      return PickNan(M::Out(r), a, b, c);
    }
  };
  struct Rcp {
    static T Of(T a) { return M::Out(T(1) / M::In(a)); }
  };
  struct Sqrt {
    static T Of(T a) { return M::Out(SquareRoot(M::In(a))); }
  };
  struct Rsqrt {
    static T Of(T a) { return M::Out(T(1) / SquareRoot(M::In(a))); }
  };
  // A NaN is not negated.
  struct Neg {
    static T Of(T a) { return a == a ? -M::In(a) : PickNan(M::Out(a), a, a); }
  };
  struct Abs {
    static T Of(T a) {
      const T v = M::In(a);
      if (a != a) return PickNan(M::Out(a), a, a);
      return sizeof(T) == 4 ? T(__builtin_fabsf(f32(v))) : T(__builtin_fabs(f64(v)));
    }
  };
  // div.approx multiplies by a reciprocal, which vanishes for divisors beyond 2^126.
  struct DivApprox {
    static T Of(T a, T b) {
      const T x = M::In(a), y = M::In(b);
      const T size = T(__builtin_fabsf(f32(y)));
      return size > T(0x1p126f) && size <= T(0x1.fffffep127f) ? M::Out(x * (y < 0 ? -T(0) : T(0)))
                                                              : M::Out(x / y);
    }
  };
  // A NaN loses against a number, and -0 is below +0.
  struct Min {
    static T Of(T x, T y) {
      const T a = M::In(x), b = M::In(y);
      if (a != a) return PickNan(M::Out(b), a, b);
      if (b != b) return a;
      if (a == b) return __builtin_signbit(a) ? a : b;
      return a < b ? a : b;
    }
  };
  struct Max {
    static T Of(T x, T y) {
      const T a = M::In(x), b = M::In(y);
      if (a != a) return PickNan(M::Out(b), a, b);
      if (b != b) return a;
      if (a == b) return __builtin_signbit(a) ? b : a;
      return a > b ? a : b;
    }
  };
  // min.NaN and max.NaN: a NaN wins.
  struct MinNan {
    static T Of(T a, T b) { return a != a || b != b ? M::Out(a + b) : Min::Of(a, b); }
  };
  struct MaxNan {
    static T Of(T a, T b) { return a != a || b != b ? M::Out(a + b) : Max::Of(a, b); }
  };
};

// copysign.f d, a, b: the magnitude of b with the sign of a.
struct Copysign32 {
  static f32 Of(f32 a, f32 b) { return __builtin_copysignf(b, a); }
};
struct Copysign64 {
  static f64 Of(f64 a, f64 b) { return __builtin_copysign(b, a); }
};

struct Mov32 {
  static f32 Of(f32 a) { return a; }
};
struct Mov64 {
  static f64 Of(f64 a) { return a; }
};

enum Test { kFinite, kInfinite, kNumber, kNan, kNormal, kSubnormal };
template <Test kTest, typename T>
void TestProperty(uint8_t* regs, const Op& op, u32 mask) {
  const T* a = Slot<const T>(regs, op.r[1]);
  u32 bits = 0;
  for (int i = 0; i < kLanes; ++i) {
    const T v = a[i];
    bool yes = false;
    switch (kTest) {
      case kFinite:
        yes = __builtin_isfinite(v);
        break;
      case kInfinite:
        yes = __builtin_isinf(v);
        break;
      case kNumber:
        yes = v == v;
        break;
      case kNan:
        yes = v != v;
        break;
      // Zero counts as normal.
      case kNormal:
        yes = __builtin_isnormal(v) || v == 0;
        break;
      case kSubnormal:
        yes = v != 0 && __builtin_isfinite(v) && !__builtin_isnormal(v);
        break;
    }
    bits |= u32(yes) << i;
  }
  Assign(Bits(regs, op.r[0]), bits, mask);
}

#define WARPLINE_F3(suffix, T, ...)                                \
  Row2<Float<T, __VA_ARGS__>::Add, T, T, T>("add." suffix),        \
      Row2<Float<T, __VA_ARGS__>::Sub, T, T, T>("sub." suffix),    \
      Row2<Float<T, __VA_ARGS__>::Mul, T, T, T>("mul." suffix),    \
      Row3<Float<T, __VA_ARGS__>::Fma, T, T, T, T>("fma." suffix), \
      Row3<Float<T, __VA_ARGS__>::Fma, T, T, T, T>("mad." suffix)
#define WARPLINE_F1(suffix, T, ...)                             \
  Row2<Float<T, __VA_ARGS__>::Div, T, T, T>("div." suffix),     \
      Row1<Float<T, __VA_ARGS__>::Rcp, T, T>("rcp." suffix),    \
      Row1<Float<T, __VA_ARGS__>::Sqrt, T, T>("sqrt." suffix),  \
      Row1<Float<T, __VA_ARGS__>::Neg, T, T>("neg." suffix),    \
      Row1<Float<T, __VA_ARGS__>::Abs, T, T>("abs." suffix),    \
      Row2<Float<T, __VA_ARGS__>::Min, T, T, T>("min." suffix), \
      Row2<Float<T, __VA_ARGS__>::Max, T, T, T>("max." suffix)
#define WARPLINE_APPROX(suffix, T, ...)                                  \
  Row2<Float<T, __VA_ARGS__>::DivApprox, T, T, T>("div.approx." suffix), \
      Row2<Float<T, __VA_ARGS__>::Div, T, T, T>("div.full." suffix),     \
      Row1<Float<T, __VA_ARGS__>::Rcp, T, T>("rcp.approx." suffix),      \
      Row1<Float<T, __VA_ARGS__>::Sqrt, T, T>("sqrt.approx." suffix),    \
      Row1<Float<T, __VA_ARGS__>::Rsqrt, T, T>("rsqrt.approx." suffix)
#define WARPLINE_TEST(name, T)                                          \
  Row<Pred, T>("testp.finite." name, TestProperty<kFinite, T>),         \
      Row<Pred, T>("testp.infinite." name, TestProperty<kInfinite, T>), \
      Row<Pred, T>("testp.number." name, TestProperty<kNumber, T>),     \
      Row<Pred, T>("testp.notanumber." name, TestProperty<kNan, T>),    \
      Row<Pred, T>("testp.normal." name, TestProperty<kNormal, T>),     \
      Row<Pred, T>("testp.subnormal." name, TestProperty<kSubnormal, T>)

constexpr AluRow kRows[] = {
    WARPLINE_F3("f32", f32, false),
    WARPLINE_F3("ftz.f32", f32, true),
    WARPLINE_F3("sat.f32", f32, false, true),
    WARPLINE_F3("ftz.sat.f32", f32, true, true),
    WARPLINE_F3("f64", f64, false),
    WARPLINE_F1("f32", f32, false),
    WARPLINE_F1("ftz.f32", f32, true),
    WARPLINE_F1("f64", f64, false),
    WARPLINE_APPROX("f32", f32, false),
    WARPLINE_APPROX("ftz.f32", f32, true),
    Row2<Float<f32, false>::MinNan, f32, f32, f32>("min.NaN.f32"),
    Row2<Float<f32, false>::MaxNan, f32, f32, f32>("max.NaN.f32"),
    Row2<Float<f32, true>::MinNan, f32, f32, f32>("min.ftz.NaN.f32"),
    Row2<Float<f32, true>::MaxNan, f32, f32, f32>("max.ftz.NaN.f32"),
    // The f64 approximations are better than those that they stand for; programs must not rely on
    // that.
    Row1<Float<f64, false>::Rcp, f64, f64>("rcp.approx.ftz.f64"),
    Row1<Float<f64, false>::Rsqrt, f64, f64>("rsqrt.approx.ftz.f64"),
    Row1<Float<f64, false>::Rsqrt, f64, f64>("rsqrt.approx.f64"),
    Row2<Copysign32, f32, f32, f32>("copysign.f32"),
    Row2<Copysign64, f64, f64, f64>("copysign.f64"),
    Row1<Mov32, f32, f32>("mov.f32"),
    Row1<Mov64, f64, f64>("mov.f64"),
    WARPLINE_TEST("f32", f32),
    WARPLINE_TEST("f64", f64),
};

}  // namespace

Rows FloatRows() { return {std::begin(kRows), std::end(kRows)}; }

}  // namespace warpline::cpu::WARPLINE_ALU
