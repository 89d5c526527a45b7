// Transcendental approximations. PTX promises an error bound; libm is within it.
#include "server/device/cpu/alu/alu_float_math.h"

namespace warpline::cpu::WARPLINE_ALU {
namespace {

template <bool kFtz>
struct Approx {
  using M = Mode<kFtz, false>;
  // Hardware counts the angle in turns, rounded to f32, so large angles lose their meaning.
  static f64 Angle(f32 a) {
    const f64 turns = f64(M::In(a) * 0.15915494f);
    return (turns - __builtin_rint(turns)) * 6.283185307179586;
  }
  struct Sin {
    static f32 Of(f32 a) { return M::Out(f32(__builtin_sin(Angle(a)))); }
  };
  struct Cos {
    static f32 Of(f32 a) { return M::Out(f32(__builtin_cos(Angle(a)))); }
  };
  struct Ex2 {
    static f32 Of(f32 a) { return M::Out(__builtin_exp2f(M::In(a))); }
  };
  struct Lg2 {
    static f32 Of(f32 a) { return M::Out(__builtin_log2f(M::In(a))); }
  };
  struct Tanh {
    static f32 Of(f32 a) { return M::Out(__builtin_tanhf(M::In(a))); }
  };
};

#define WARPLINE_APPROX(suffix, kFtz)                                              \
  Row<f32, f32>("sin.approx." suffix, SlowUnary<Approx<kFtz>::Sin, f32, f32>),     \
      Row<f32, f32>("cos.approx." suffix, SlowUnary<Approx<kFtz>::Cos, f32, f32>), \
      Row<f32, f32>("ex2.approx." suffix, SlowUnary<Approx<kFtz>::Ex2, f32, f32>), \
      Row<f32, f32>("lg2.approx." suffix, SlowUnary<Approx<kFtz>::Lg2, f32, f32>), \
      Row<f32, f32>("tanh.approx." suffix, SlowUnary<Approx<kFtz>::Tanh, f32, f32>)

constexpr AluRow kRows[] = {
    WARPLINE_APPROX("f32", false),
    WARPLINE_APPROX("ftz.f32", true),
};

}  // namespace

Rows ApproxRows() { return {std::begin(kRows), std::end(kRows)}; }

}  // namespace warpline::cpu::WARPLINE_ALU
