// Integer arithmetic of one width.
#include "server/device/cpu/alu/alu_lanes.h"

namespace warpline::cpu::WARPLINE_ALU {
namespace {

template <typename T>
struct TypeOf {};
template <>
struct TypeOf<i16> {
  using U = u16;
};
template <>
struct TypeOf<u16> {
  using U = u16;
};
template <>
struct TypeOf<i32> {
  using U = u32;
};
template <>
struct TypeOf<u32> {
  using U = u32;
};
template <>
struct TypeOf<i64> {
  using U = u64;
};
template <>
struct TypeOf<u64> {
  using U = u64;
};

// Unsigned arithmetic wraps; casts back to signed are modular since C++20.
template <typename T>
struct Integer {
  using U = typename TypeOf<T>::U;
  static constexpr bool kSigned = T(-1) < T(0);
  static constexpr T kMin = kSigned ? T(U(1) << (sizeof(T) * 8 - 1)) : T(0);
  static constexpr T kMax = T(~U(kMin));

  struct Mov {
    static T Of(T a) { return a; }
  };
  struct Add {
    static T Of(T a, T b) { return T(U(a) + U(b)); }
  };
  struct Sub {
    static T Of(T a, T b) { return T(U(a) - U(b)); }
  };
  // 16-bit operands would be promoted to int, whose product can overflow.
  struct MulLo {
    static T Of(T a, T b) { return T(u64(a) * u64(b)); }
  };
  struct MadLo {
    static T Of(T a, T b, T c) { return T(u64(a) * u64(b) + u64(c)); }
  };
  struct Neg {
    static T Of(T a) { return T(U(0) - U(a)); }
  };
  struct Abs {
    static T Of(T a) { return a < 0 ? T(U(0) - U(a)) : a; }
  };
  struct Min {
    static T Of(T a, T b) { return a < b ? a : b; }
  };
  struct Max {
    static T Of(T a, T b) { return a > b ? a : b; }
  };
  struct Sad {
    static T Of(T a, T b, T c) { return T(U(c) + (a < b ? U(b) - U(a) : U(a) - U(b))); }
  };
  // The quotient and remainder of a division by zero are all ones, as on NVIDIA's hardware.
  struct Div {
    static T Of(T a, T b) {
      if (b == 0) return T(~U(0));
      if (kSigned && b == T(-1)) return T(U(0) - U(a));
      return T(a / b);
    }
  };
  struct Rem {
    static T Of(T a, T b) {
      if (b == 0) return T(~U(0));
      if (kSigned && b == T(-1)) return 0;
      return T(a % b);
    }
  };
  struct AddSat {
    static T Of(T a, T b) {
      T r;
      return __builtin_add_overflow(a, b, &r) ? (b < 0 ? kMin : kMax) : r;
    }
  };
  struct SubSat {
    static T Of(T a, T b) {
      T r;
      return __builtin_sub_overflow(a, b, &r) ? (b < 0 ? kMax : kMin) : r;
    }
  };
  struct And {
    static T Of(T a, T b) { return a & b; }
  };
  struct Or {
    static T Of(T a, T b) { return a | b; }
  };
  struct Xor {
    static T Of(T a, T b) { return a ^ b; }
  };
  struct Not {
    static T Of(T a) { return T(~a); }
  };
  struct Cnot {
    static T Of(T a) { return a == 0; }
  };
  // A shift by the width or more shifts everything out.
  struct Shl {
    static T Of(T a, u32 n) { return n < sizeof(T) * 8 ? T(U(a) << (n & 63)) : T(0); }
  };
  struct Shr {
    static T Of(T a, u32 n) {
      constexpr u32 kBits = sizeof(T) * 8;
      if (kSigned) return T(a >> (n < kBits ? n : kBits - 1));
      return n < kBits ? T(a >> n) : T(0);
    }
  };
};

#define WARPLINE_MOV(name, T) Row1<Integer<T>::Mov, T, T>("mov." name)
#define WARPLINE_BOTH(name, T)                                                                  \
  Row2<Integer<T>::Add, T, T, T>("add." name), Row2<Integer<T>::Sub, T, T, T>("sub." name),     \
      Row2<Integer<T>::MulLo, T, T, T>("mul.lo." name),                                         \
      Row3<Integer<T>::MadLo, T, T, T, T>("mad.lo." name),                                      \
      Row2<Integer<T>::Min, T, T, T>("min." name), Row2<Integer<T>::Max, T, T, T>("max." name), \
      Row3<Integer<T>::Sad, T, T, T, T>("sad." name),                                           \
      Row<T, T, T>("div." name, SlowBinary<Integer<T>::Div, T, T, T>),                          \
      Row<T, T, T>("rem." name, SlowBinary<Integer<T>::Rem, T, T, T>),                          \
      Row2<Integer<T>::Shr, T, T, u32>("shr." name), WARPLINE_MOV(name, T)
#define WARPLINE_SIGNED(name, T) \
  Row1<Integer<T>::Neg, T, T>("neg." name), Row1<Integer<T>::Abs, T, T>("abs." name)
#define WARPLINE_BITS(name, T)                                                                \
  WARPLINE_MOV(name, T), Row2<Integer<T>::And, T, T, T>("and." name),                         \
      Row2<Integer<T>::Or, T, T, T>("or." name), Row2<Integer<T>::Xor, T, T, T>("xor." name), \
      Row1<Integer<T>::Not, T, T>("not." name), Row1<Integer<T>::Cnot, T, T>("cnot." name),   \
      Row2<Integer<T>::Shl, T, T, u32>("shl." name), Row2<Integer<T>::Shr, T, T, u32>("shr." name)

constexpr AluRow kRows[] = {
    WARPLINE_BOTH("u16", u16),
    WARPLINE_BOTH("s16", i16),
    WARPLINE_BOTH("u32", u32),
    WARPLINE_BOTH("s32", i32),
    WARPLINE_BOTH("u64", u64),
    WARPLINE_BOTH("s64", i64),
    WARPLINE_SIGNED("s16", i16),
    WARPLINE_SIGNED("s32", i32),
    WARPLINE_SIGNED("s64", i64),
    WARPLINE_BITS("b16", u16),
    WARPLINE_BITS("b32", u32),
    WARPLINE_BITS("b64", u64),
    Row1<Integer<u16>::Mov, u16, u16>("mov.f16"),
    Row1<Integer<u16>::Mov, u16, u16>("mov.bf16"),
    Row2<Integer<i32>::AddSat, i32, i32, i32>("add.sat.s32"),
    Row2<Integer<i32>::SubSat, i32, i32, i32>("sub.sat.s32"),
};

}  // namespace

Rows IntegerRows() { return {std::begin(kRows), std::end(kRows)}; }

}  // namespace warpline::cpu::WARPLINE_ALU
