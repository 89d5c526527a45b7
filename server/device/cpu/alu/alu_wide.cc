// Products of twice the width, high halves, carry chains, dot products.
#include "server/device/cpu/alu/alu_lanes.h"

namespace warpline::cpu::WARPLINE_ALU {
namespace {

using i128 = __int128;
using u128 = unsigned __int128;

template <typename T>
struct WideOf {};
template <>
struct WideOf<i16> {
  using W = i32;
};
template <>
struct WideOf<u16> {
  using W = u32;
};
template <>
struct WideOf<i32> {
  using W = i64;
};
template <>
struct WideOf<u32> {
  using W = u64;
};
template <>
struct WideOf<i64> {
  using W = i128;
};
template <>
struct WideOf<u64> {
  using W = u128;
};

template <typename T>
struct Product {
  using W = typename WideOf<T>::W;
  static constexpr int kBits = sizeof(T) * 8;
  static T High(T a, T b) { return T((W(a) * W(b)) >> kBits); }

  struct MulHi {
    static T Of(T a, T b) { return High(a, b); }
  };
  struct MadHi {
    static T Of(T a, T b, T c) { return T(u64(High(a, b)) + u64(c)); }
  };
  struct MulWide {
    static W Of(T a, T b) { return W(a) * W(b); }
  };
  struct MadWide {
    static W Of(T a, T b, W c) { return W(u64(W(a) * W(b)) + u64(c)); }
  };
};

struct MadHiSat {
  static i32 Of(i32 a, i32 b, i32 c) {
    const i64 sum = i64(Product<i32>::High(a, b)) + c;
    return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : i32(sum);
  }
};

// The low 24 bits of each operand are multiplied; .hi takes bits 16 to 47.
template <typename T>
struct Product24 {
  static T Cut(T a) { return T(T(u32(a) << 8) >> 8); }
  static i64 Full(T a, T b) { return i64(Cut(a)) * i64(Cut(b)); }
  struct Lo {
    static T Of(T a, T b) { return T(Full(a, b)); }
  };
  struct Hi {
    static T Of(T a, T b) { return T(Full(a, b) >> 16); }
  };
  struct MadLo {
    static T Of(T a, T b, T c) { return T(u32(Full(a, b)) + u32(c)); }
  };
  struct MadHi {
    static T Of(T a, T b, T c) { return T(u32(Full(a, b) >> 16) + u32(c)); }
  };
};

// add.cc and similar instructions: `Of` returns the sum and updates the carry.
template <typename U>
struct Carry {
  struct Add {
    static U Of(U a, U b, bool, bool* out) {
      U r;
      *out = __builtin_add_overflow(a, b, &r);
      return r;
    }
  };
  struct Addc {
    static U Of(U a, U b, bool in, bool* out) {
      U r;
      const bool first = __builtin_add_overflow(a, b, &r);
      *out = __builtin_add_overflow(r, U(in), &r) || first;
      return r;
    }
  };
  struct Sub {
    static U Of(U a, U b, bool, bool* out) {
      U r;
      *out = __builtin_sub_overflow(a, b, &r);
      return r;
    }
  };
  struct Subc {
    static U Of(U a, U b, bool in, bool* out) {
      U r;
      const bool first = __builtin_sub_overflow(a, b, &r);
      *out = __builtin_sub_overflow(r, U(in), &r) || first;
      return r;
    }
  };
};

template <typename F, typename U, bool kOut>
void CarryBinary(uint8_t* regs, const Op& op, u32 mask) {
  const U* a = Slot<const U>(regs, op.r[1]);
  const U* b = Slot<const U>(regs, op.r[2]);
  U* d = Slot<U>(regs, op.r[0]);
  u32& flags = Bits(regs, op.r[5]);
  for (u32 m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    bool out = false;
    d[i] = F::Of(a[i], b[i], (flags >> i & 1) != 0, &out);
    if (kOut) Assign(flags, u32(out) << i, 1u << i);
  }
}

// mad with carry: the product's low or high half, then the addition F.
template <typename F, typename T, typename U, bool kHigh, bool kOut>
void CarryMad(uint8_t* regs, const Op& op, u32 mask) {
  const T* a = Slot<const T>(regs, op.r[1]);
  const T* b = Slot<const T>(regs, op.r[2]);
  const U* c = Slot<const U>(regs, op.r[3]);
  U* d = Slot<U>(regs, op.r[0]);
  u32& flags = Bits(regs, op.r[5]);
  for (u32 m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    bool out = false;
    const U product = kHigh ? U(Product<T>::High(a[i], b[i])) : U(U(a[i]) * U(b[i]));
    d[i] = F::Of(product, c[i], (flags >> i & 1) != 0, &out);
    if (kOut) Assign(flags, u32(out) << i, 1u << i);
  }
}

template <typename T, typename U>
struct Dot {
  static i32 Byte(u32 v, int n, bool is_signed) {
    const u32 byte = v >> (8 * n) & 0xff;
    return is_signed ? i32(int8_t(byte)) : i32(byte);
  }
  static constexpr bool kA = T(-1) < T(0);
  static constexpr bool kB = U(-1) < U(0);
  struct Four {
    static u32 Of(u32 a, u32 b, u32 c) {
      for (int n = 0; n < 4; ++n) c += u32(Byte(a, n, kA) * Byte(b, n, kB));
      return c;
    }
  };
  template <int kFirst>
  struct Two {
    static u32 Of(u32 a, u32 b, u32 c) {
      for (int n = 0; n < 2; ++n) {
        const u32 half = a >> (16 * n) & 0xffff;
        const i64 value = kA ? i64(i16(half)) : i64(half);
        c += u32(value * Byte(b, kFirst + n, kB));
      }
      return c;
    }
  };
};

template <typename... T>
constexpr AluRow CarryRow(const char* mnemonic, AluFn fn) {
  return AluRow{mnemonic, {kCode<T>...}, fn, true};
}

#define WARPLINE_HI(name, T)                        \
  Row2<Product<T>::MulHi, T, T, T>("mul.hi." name), \
      Row3<Product<T>::MadHi, T, T, T, T>("mad.hi." name)
#define WARPLINE_WIDE(name, T, W)                       \
  Row2<Product<T>::MulWide, W, T, T>("mul.wide." name), \
      Row3<Product<T>::MadWide, W, T, T, W>("mad.wide." name)
#define WARPLINE_24(name, T)                                   \
  Row2<Product24<T>::Lo, T, T, T>("mul24.lo." name),           \
      Row2<Product24<T>::Hi, T, T, T>("mul24.hi." name),       \
      Row3<Product24<T>::MadLo, T, T, T, T>("mad24.lo." name), \
      Row3<Product24<T>::MadHi, T, T, T, T>("mad24.hi." name)
#define WARPLINE_CARRY(name, T, U)                                                           \
  CarryRow<U, U, U>("add.cc." name, CarryBinary<Carry<U>::Add, U, true>),                    \
      CarryRow<U, U, U>("addc." name, CarryBinary<Carry<U>::Addc, U, false>),                \
      CarryRow<U, U, U>("addc.cc." name, CarryBinary<Carry<U>::Addc, U, true>),              \
      CarryRow<U, U, U>("sub.cc." name, CarryBinary<Carry<U>::Sub, U, true>),                \
      CarryRow<U, U, U>("subc." name, CarryBinary<Carry<U>::Subc, U, false>),                \
      CarryRow<U, U, U>("subc.cc." name, CarryBinary<Carry<U>::Subc, U, true>),              \
      CarryRow<U, U, U, U>("mad.lo.cc." name, CarryMad<Carry<U>::Add, T, U, false, true>),   \
      CarryRow<U, U, U, U>("mad.hi.cc." name, CarryMad<Carry<U>::Add, T, U, true, true>),    \
      CarryRow<U, U, U, U>("madc.lo." name, CarryMad<Carry<U>::Addc, T, U, false, false>),   \
      CarryRow<U, U, U, U>("madc.hi." name, CarryMad<Carry<U>::Addc, T, U, true, false>),    \
      CarryRow<U, U, U, U>("madc.lo.cc." name, CarryMad<Carry<U>::Addc, T, U, false, true>), \
      CarryRow<U, U, U, U>("madc.hi.cc." name, CarryMad<Carry<U>::Addc, T, U, true, true>)
#define WARPLINE_DOT(name, T, U)                                    \
  Row3<Dot<T, U>::Four, u32, u32, u32, u32>("dp4a." name),          \
      Row3<Dot<T, U>::Two<0>, u32, u32, u32, u32>("dp2a.lo." name), \
      Row3<Dot<T, U>::Two<2>, u32, u32, u32, u32>("dp2a.hi." name)

constexpr AluRow kRows[] = {
    WARPLINE_HI("u16", u16),
    WARPLINE_HI("s16", i16),
    WARPLINE_HI("u32", u32),
    WARPLINE_HI("s32", i32),
    WARPLINE_HI("u64", u64),
    WARPLINE_HI("s64", i64),
    WARPLINE_WIDE("u16", u16, u32),
    WARPLINE_WIDE("s16", i16, i32),
    WARPLINE_WIDE("u32", u32, u64),
    WARPLINE_WIDE("s32", i32, i64),
    WARPLINE_24("u32", u32),
    WARPLINE_24("s32", i32),
    Row3<MadHiSat, i32, i32, i32, i32>("mad.hi.sat.s32"),
    WARPLINE_CARRY("u32", u32, u32),
    WARPLINE_CARRY("s32", i32, u32),
    WARPLINE_CARRY("u64", u64, u64),
    WARPLINE_CARRY("s64", i64, u64),
    WARPLINE_DOT("u32.u32", u32, u32),
    WARPLINE_DOT("s32.s32", i32, i32),
    WARPLINE_DOT("u32.s32", u32, i32),
    WARPLINE_DOT("s32.u32", i32, u32),
};

}  // namespace

Rows WideRows() { return {std::begin(kRows), std::end(kRows)}; }

}  // namespace warpline::cpu::WARPLINE_ALU
