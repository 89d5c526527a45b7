// Several small integers in one register.
#include "server/device/cpu/alu/alu_lanes.h"

namespace warpline::cpu::WARPLINE_ALU {
namespace {

// Applies F to each part of type N.
template <typename F, typename N>
struct Parts {
  template <typename... Args>
  static u32 Of(Args... args) {
    u32 out = 0;
    for (u32 shift = 0; shift < 32; shift += sizeof(N) * 8) {
      out |= (u32(F::Of(i32(N(args >> shift))...)) & (sizeof(N) == 1 ? 0xffu : 0xffffu)) << shift;
    }
    return out;
  }
};

struct Add {
  static i32 Of(i32 a, i32 b) { return a + b; }
};
struct Sub {
  static i32 Of(i32 a, i32 b) { return a - b; }
};
struct Min {
  static i32 Of(i32 a, i32 b) { return a < b ? a : b; }
};
struct Max {
  static i32 Of(i32 a, i32 b) { return a > b ? a : b; }
};
struct MinRelu {
  static i32 Of(i32 a, i32 b) { return Max::Of(Min::Of(a, b), 0); }
};
struct MaxRelu {
  static i32 Of(i32 a, i32 b) { return Max::Of(Max::Of(a, b), 0); }
};

// vabsdiff: absolute differences, as a vector or added up with c.
template <typename N, bool kSum>
struct AbsDiff {
  static u32 Of(u32 a, u32 b, u32 c) {
    u32 vector = 0, sum = c;
    for (u32 shift = 0; shift < 32; shift += sizeof(N) * 8) {
      // NOLINTNEXTLINE(bugprone-signed-char-misuse): the lanes of the vector are numbers.
      const i32 x = N(a >> shift), y = N(b >> shift);
      const u32 d = u32(x < y ? y - x : x - y);
      vector |= (d & (sizeof(N) == 1 ? 0xffu : 0xffffu)) << shift;
      sum += d;
    }
    return kSum ? sum : vector;
  }
};

// fns: the n-th set bit of a, from bit `base` on upwards or, for a negative n, downwards.
struct FindNthSet {
  static u32 Of(u32 a, u32 base, i32 n) {
    if (base > 31) return ~u32{0};
    if (n == 0) return (a >> base & 1) != 0 ? base : ~u32{0};
    i32 left = n > 0 ? n : n < -32 ? 33 : -n;
    for (i32 at = i32(base); at >= 0 && at<32; at += n> 0 ? 1 : -1) {
      if ((a >> at & 1) != 0 && --left == 0) return u32(at);
    }
    return ~u32{0};
  }
};

template <typename F, typename N>
constexpr AluRow Pair(const char* mnemonic) {
  return Row2<Parts<F, N>, u32, u32, u32>(mnemonic);
}

#define WARPLINE_ABSDIFF(name, N, types)                                  \
  Row3<AbsDiff<N, false>, u32, u32, u32, u32>("vabsdiff" name "." types), \
      Row3<AbsDiff<N, true>, u32, u32, u32, u32>("vabsdiff" name "." types ".add")

constexpr AluRow kRows[] = {
    Pair<Add, u16>("add.u16x2"),
    Pair<Add, u16>("add.s16x2"),
    Pair<Sub, u16>("sub.u16x2"),
    Pair<Sub, u16>("sub.s16x2"),
    Pair<Min, u16>("min.u16x2"),
    Pair<Min, i16>("min.s16x2"),
    Pair<Max, u16>("max.u16x2"),
    Pair<Max, i16>("max.s16x2"),
    Pair<MinRelu, i16>("min.s16x2.relu"),
    Pair<MinRelu, i16>("min.relu.s16x2"),
    Pair<MaxRelu, i16>("max.s16x2.relu"),
    Pair<MaxRelu, i16>("max.relu.s16x2"),
    Row2<MinRelu, i32, i32, i32>("min.s32.relu"),
    Row2<MinRelu, i32, i32, i32>("min.relu.s32"),
    Row2<MaxRelu, i32, i32, i32>("max.s32.relu"),
    Row2<MaxRelu, i32, i32, i32>("max.relu.s32"),
    Row<u32, u32, u32, i32>("fns.b32", SlowTernary<FindNthSet, u32, u32, u32, i32>),
    WARPLINE_ABSDIFF("4", uint8_t, "u32.u32.u32"),
    WARPLINE_ABSDIFF("4", int8_t, "s32.s32.s32"),
    WARPLINE_ABSDIFF("4", int8_t, "u32.s32.s32"),
    WARPLINE_ABSDIFF("2", u16, "u32.u32.u32"),
    WARPLINE_ABSDIFF("2", i16, "s32.s32.s32"),
    WARPLINE_ABSDIFF("2", i16, "u32.s32.s32"),
};

}  // namespace

Rows SimdRows() { return {std::begin(kRows), std::end(kRows)}; }

}  // namespace warpline::cpu::WARPLINE_ALU
