// setp: comparisons into predicates, combined with another predicate.
//
// r[0] is the result, r[1] the complement's result or kNoSlot, r[2] and r[3] the operands, r[4] the
// predicate to combine with; imm holds the combination.
#include "server/device/cpu/alu/alu_float_math.h"

namespace warpline::cpu::WARPLINE_ALU {
namespace {

struct Eq {
  template <typename T>
  static bool Of(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <typename T>
  static bool Of(T a, T b) {
    return a < b || a > b;
  }
};
struct Lt {
  template <typename T>
  static bool Of(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <typename T>
  static bool Of(T a, T b) {
    return a <= b;
  }
};
struct Gt {
  template <typename T>
  static bool Of(T a, T b) {
    return a > b;
  }
};
struct Ge {
  template <typename T>
  static bool Of(T a, T b) {
    return a >= b;
  }
};
// Unordered comparisons, which are true with a NaN.
struct Equ {
  template <typename T>
  static bool Of(T a, T b) {
    return !(a < b || a > b);
  }
};
struct Neu {
  template <typename T>
  static bool Of(T a, T b) {
    return !(a == b);
  }
};
struct Ltu {
  template <typename T>
  static bool Of(T a, T b) {
    return !(a >= b);
  }
};
struct Leu {
  template <typename T>
  static bool Of(T a, T b) {
    return !(a > b);
  }
};
struct Gtu {
  template <typename T>
  static bool Of(T a, T b) {
    return !(a <= b);
  }
};
struct Geu {
  template <typename T>
  static bool Of(T a, T b) {
    return !(a < b);
  }
};
struct Num {
  template <typename T>
  static bool Of(T a, T b) {
    return a == a && b == b;
  }
};
struct Nan {
  template <typename T>
  static bool Of(T a, T b) {
    return a != a || b != b;
  }
};

template <typename Lane>
inline u32 Collect(Lane lane) {
  u32 t[kLanes];
  WARPLINE_IVDEP
  for (int i = 0; i < kLanes; ++i) t[i] = lane(i) ? 1u << i : 0u;
  u32 bits = 0;
  for (int i = 0; i < kLanes; ++i) bits |= t[i];
  return bits;
}

inline void Finish(uint8_t* regs, const Op& op, u32 mask, u32 bits) {
  u32 complement = ~bits;
  if (op.imm != 0) {
    const u32 c = Bits(regs, op.r[4]) ^ (op.negated ? ~0u : 0);
    switch (op.imm) {
      case 1:
        bits &= c;
        complement &= c;
        break;
      case 2:
        bits |= c;
        complement |= c;
        break;
      default:
        bits ^= c;
        complement ^= c;
        break;
    }
  }
  Assign(Bits(regs, op.r[0]), bits, mask);
  if (op.r[1] != kNoSlot) Assign(Bits(regs, op.r[1]), complement, mask);
}

template <typename C, typename T>
void Setp(uint8_t* regs, const Op& op, u32 mask) {
  const T* a = Slot<const T>(regs, op.r[2]);
  const T* b = Slot<const T>(regs, op.r[3]);
  Finish(regs, op, mask, Collect([&](int i) { return C::Of(a[i], b[i]); }));
}
template <typename C>
void SetpFtz(uint8_t* regs, const Op& op, u32 mask) {
  const f32* a = Slot<const f32>(regs, op.r[2]);
  const f32* b = Slot<const f32>(regs, op.r[3]);
  Finish(regs, op, mask, Collect([&](int i) { return C::Of(Flush(a[i]), Flush(b[i])); }));
}

#define WARPLINE_SETP(cmp, F, name, T) Row<Pred, T, T>("setp." cmp "." name, Setp<F, T>)
#define WARPLINE_ALL_TYPES(cmp, F)                                          \
  WARPLINE_SETP(cmp, F, "u16", u16), WARPLINE_SETP(cmp, F, "s16", i16),     \
      WARPLINE_SETP(cmp, F, "u32", u32), WARPLINE_SETP(cmp, F, "s32", i32), \
      WARPLINE_SETP(cmp, F, "u64", u64), WARPLINE_SETP(cmp, F, "s64", i64), \
      WARPLINE_FLOATS(cmp, F)
#define WARPLINE_FLOATS(cmp, F)                                         \
  WARPLINE_SETP(cmp, F, "f32", f32), WARPLINE_SETP(cmp, F, "f64", f64), \
      Row<Pred, f32, f32>("setp." cmp ".ftz.f32", SetpFtz<F>)
#define WARPLINE_BITS(cmp, F)                                           \
  WARPLINE_SETP(cmp, F, "b16", u16), WARPLINE_SETP(cmp, F, "b32", u32), \
      WARPLINE_SETP(cmp, F, "b64", u64)
#define WARPLINE_UNSIGNED(cmp, F)                                       \
  WARPLINE_SETP(cmp, F, "u16", u16), WARPLINE_SETP(cmp, F, "u32", u32), \
      WARPLINE_SETP(cmp, F, "u64", u64)

constexpr AluRow kRows[] = {
    WARPLINE_ALL_TYPES("eq", Eq), WARPLINE_ALL_TYPES("ne", Ne), WARPLINE_ALL_TYPES("lt", Lt),
    WARPLINE_ALL_TYPES("le", Le), WARPLINE_ALL_TYPES("gt", Gt), WARPLINE_ALL_TYPES("ge", Ge),
    WARPLINE_BITS("eq", Eq),      WARPLINE_BITS("ne", Ne),      WARPLINE_UNSIGNED("lo", Lt),
    WARPLINE_UNSIGNED("ls", Le),  WARPLINE_UNSIGNED("hi", Gt),  WARPLINE_UNSIGNED("hs", Ge),
    WARPLINE_FLOATS("equ", Equ),  WARPLINE_FLOATS("neu", Neu),  WARPLINE_FLOATS("ltu", Ltu),
    WARPLINE_FLOATS("leu", Leu),  WARPLINE_FLOATS("gtu", Gtu),  WARPLINE_FLOATS("geu", Geu),
    WARPLINE_FLOATS("num", Num),  WARPLINE_FLOATS("nan", Nan),
};

}  // namespace

Rows CompareRows() { return {std::begin(kRows), std::end(kRows)}; }

}  // namespace warpline::cpu::WARPLINE_ALU
