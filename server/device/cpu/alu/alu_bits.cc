// Bit fields, permutations, logic on predicates, selection.
#include "server/device/cpu/alu/alu_lanes.h"

namespace warpline::cpu::WARPLINE_ALU {
namespace {

template <typename T>
struct Bit {
  static constexpr u32 kBits = sizeof(T) * 8;
  static constexpr u64 Low(u32 n) { return n >= 64 ? ~u64{0} : (u64{1} << n) - 1; }

  struct Popc {
    static u32 Of(T a) { return u32(__builtin_popcountll(u64(a))); }
  };
  struct Clz {
    static u32 Of(T a) { return a == 0 ? kBits : u32(__builtin_clzll(u64(a))) - (64 - kBits); }
  };
  struct Brev {
    static T Of(T a) {
      u64 v = u64(a);
      v = (v >> 1 & 0x5555555555555555) | (v & 0x5555555555555555) << 1;
      v = (v >> 2 & 0x3333333333333333) | (v & 0x3333333333333333) << 2;
      v = (v >> 4 & 0x0f0f0f0f0f0f0f0f) | (v & 0x0f0f0f0f0f0f0f0f) << 4;
      return T(__builtin_bswap64(v) >> (64 - kBits));
    }
  };
  struct Bfi {
    static T Of(T a, T b, u32 pos, u32 len) {
      // Hardware looks at 8 bits of them, but the software routine for 64 bits looks at all.
      if (kBits == 32) {
        pos &= 0xff;
        len &= 0xff;
      }
      if (pos >= kBits || len == 0) return b;
      const u64 field = Low(len) << pos;
      return T((u64(b) & ~field) | (u64(a) << pos & field));
    }
  };
};

template <typename S, typename U>
struct Field {
  static constexpr bool kSigned = S(-1) < S(0);
  static constexpr u32 kBits = sizeof(S) * 8;
  // A field past the top is filled with the sign, or with zeros.
  struct Bfe {
    static S Of(S a, u32 pos, u32 len) {
      if (kBits == 32) {
        pos &= 0xff;
        len &= 0xff;
      }
      if (len == 0) return 0;
      const S top = kSigned ? S(a >> (kBits - 1)) : S(0);
      if (pos >= kBits) return top;
      const S shifted = S(a >> pos);  // Arithmetic where S is signed.
      if (len >= kBits) return shifted;
      if (len >= kBits - pos) return shifted;
      const U cut = U(shifted) << (kBits - len);
      return S(S(cut) >> (kBits - len));
    }
  };
  struct Find {
    static u32 Of(S a) {
      const U v = kSigned && a < 0 ? U(~U(a)) : U(a);
      return v == 0 ? 0xffffffffu : 63u - u32(__builtin_clzll(u64(v)));
    }
  };
  struct FindShift {
    static u32 Of(S a) {
      const u32 at = Find::Of(a);
      return at == 0xffffffffu ? at : kBits - 1 - at;
    }
  };
};

template <typename T>
void Bfi(uint8_t* regs, const Op& op, u32 mask) {
  const T* a = Slot<const T>(regs, op.r[1]);
  const T* b = Slot<const T>(regs, op.r[2]);
  const u32* pos = Slot<const u32>(regs, op.r[3]);
  const u32* len = Slot<const u32>(regs, op.r[4]);
  ForActiveLanes(Slot<T>(regs, op.r[0]), mask,
                 [&](int i) { return Bit<T>::Bfi::Of(a[i], b[i], pos[i], len[i]); });
}

// Funnel shifts of the 64 bits b:a, by an amount that is clamped at 32 or taken modulo 32.
template <bool kLeft, bool kWrap>
struct Shf {
  static u32 Of(u32 a, u32 b, u32 n) {
    n = kWrap ? n & 31 : (n > 32 ? 32 : n);
    const u64 both = u64(b) << 32 | a;
    return kLeft ? u32((both << n) >> 32) : u32(both >> n);
  }
};

// prmt: each selector nibble picks a byte of b:a, or its sign.
u32 PickByte(u64 bytes, u32 selector) {
  const u32 byte = u32(bytes >> (8 * (selector & 7))) & 0xff;
  return (selector & 8) != 0 ? (byte & 0x80) != 0 ? 0xff : 0 : byte;
}

template <int kMode>
struct Prmt {
  static u32 Of(u32 a, u32 b, u32 c) {
    const u64 bytes = u64(b) << 32 | a;
    u32 r = 0;
    for (u32 n = 0; n < 4; ++n) {
      const u32 low = c & 3;
      u32 s = 0;
      switch (kMode) {
        case 0:
          s = c >> (4 * n) & 15;
          break;
        case 1:
          s = (low + n) & 7;
          break;  // f4e
        case 2:
          s = (low - n) & 7;
          break;  // b4e
        case 3:
          s = low;
          break;  // rc8
        case 4:
          s = n < low ? low : n;
          break;  // ecl
        case 5:
          s = n < low ? n : low;
          break;  // ecr
        case 6:
          s = (low & 1) * 2 + (n & 1);
          break;  // rc16
      }
      r |= PickByte(bytes, s) << (8 * n);
    }
    return r;
  }
};

void Lop3(uint8_t* regs, const Op& op, u32 mask) {
  const u32* a = Slot<const u32>(regs, op.r[1]);
  const u32* b = Slot<const u32>(regs, op.r[2]);
  const u32* c = Slot<const u32>(regs, op.r[3]);
  // One mask per entry of the truth table.
  u32 t[8];
  for (int k = 0; k < 8; ++k) t[k] = (op.imm >> k & 1) != 0 ? ~0u : 0;
  ForLanes(Slot<u32>(regs, op.r[0]), mask, [&](int i) {
    const u32 x = a[i], y = b[i], z = c[i];
    return (t[0] & ~x & ~y & ~z) | (t[1] & ~x & ~y & z) | (t[2] & ~x & y & ~z) |
           (t[3] & ~x & y & z) | (t[4] & x & ~y & ~z) | (t[5] & x & ~y & z) | (t[6] & x & y & ~z) |
           (t[7] & x & y & z);
  });
}

template <bool kWrap>
struct Bmsk {
  static u32 Of(u32 pos, u32 len) {
    if (kWrap) {
      pos &= 31;
      len &= 31;
    }
    if (pos >= 32) return 0;
    return u32(Bit<u32>::Low(len > 32 ? 32 : len) << pos);
  }
};

template <typename T>
void Select(uint8_t* regs, const Op& op, u32 mask) {
  const T* a = Slot<const T>(regs, op.r[1]);
  const T* b = Slot<const T>(regs, op.r[2]);
  const u32 p = Bits(regs, op.r[3]) ^ (op.negated ? ~0u : 0);
  ForLanes(Slot<T>(regs, op.r[0]), mask, [&](int i) { return (p >> i & 1) != 0 ? a[i] : b[i]; });
}

// slct: the sign of c chooses.
template <typename T, typename C>
struct Slct {
  static T Of(T a, T b, C c) { return c >= 0 ? a : b; }
};

// Fills a slot with one value, for the constants of called functions.
template <typename T>
void Broadcast(uint8_t* regs, const Op& op, u32 mask) {
  const T value = T(op.imm);
  ForLanes(Slot<T>(regs, op.r[0]), mask, [&](int) { return value; });
}
void BroadcastPred(uint8_t* regs, const Op& op, u32 mask) {
  Assign(Bits(regs, op.r[0]), op.imm != 0 ? ~0u : 0, mask);
}

template <typename F>
void PredBinary(uint8_t* regs, const Op& op, u32 mask) {
  Assign(Bits(regs, op.r[0]), F::Of(Bits(regs, op.r[1]), Bits(regs, op.r[2])), mask);
}
struct PredAnd {
  static u32 Of(u32 a, u32 b) { return a & b; }
};
struct PredOr {
  static u32 Of(u32 a, u32 b) { return a | b; }
};
struct PredXor {
  static u32 Of(u32 a, u32 b) { return a ^ b; }
};
void PredNot(uint8_t* regs, const Op& op, u32 mask) {
  Assign(Bits(regs, op.r[0]), ~Bits(regs, op.r[1]), mask);
}
void PredMov(uint8_t* regs, const Op& op, u32 mask) {
  Assign(Bits(regs, op.r[0]), Bits(regs, op.r[1]) ^ (op.negated ? ~0u : 0), mask);
}

// isspacep of a window: whether the address is in [imm, imm + 4 GiB).
void InWindow(uint8_t* regs, const Op& op, u32 mask) {
  const u64* a = Slot<const u64>(regs, op.r[1]);
  u32 bits = 0;
  for (int i = 0; i < kLanes; ++i) bits |= u32(a[i] - op.imm < kWindowBytes) << i;
  Assign(Bits(regs, op.r[0]), bits, mask);
}
void BelowWindows(uint8_t* regs, const Op& op, u32 mask) {
  const u64* a = Slot<const u64>(regs, op.r[1]);
  u32 bits = 0;
  for (int i = 0; i < kLanes; ++i) bits |= u32(a[i] < kFirstWindow) << i;
  Assign(Bits(regs, op.r[0]), bits, mask);
}

// mov between a wide register and a vector of narrow ones.
template <typename W, typename N, int kParts>
void Pack(uint8_t* regs, const Op& op, u32 mask) {
  const N* part[kParts];
  for (int k = 0; k < kParts; ++k) part[k] = Slot<const N>(regs, op.r[1 + k]);
  ForLanes(Slot<W>(regs, op.r[0]), mask, [&](int i) {
    W v = 0;
    for (int k = 0; k < kParts; ++k) v |= W(W(part[k][i]) << (k * sizeof(N) * 8));
    return v;
  });
}
template <typename W, typename N, int kParts>
void Unpack(uint8_t* regs, const Op& op, u32 mask) {
  // The source may be a neighbour of one of the destinations, but never the same slot, so it is
  // copied first.
  W source[kLanes];
  const W* a = Slot<const W>(regs, op.r[kParts]);
  for (int i = 0; i < kLanes; ++i) source[i] = a[i];
  for (int k = 0; k < kParts; ++k) {
    ForLanes(Slot<N>(regs, op.r[k]), mask,
             [&](int i) { return N(source[i] >> (k * sizeof(N) * 8)); });
  }
}

// Extensions from the low bits of a register: from 8 bits everywhere, and from 16 and 32 in wider
// registers.
template <typename T, typename N>
struct Extend {
  static T Of(T a) { return T(N(a)); }
};

#define WARPLINE_SELECT(name, T) Row<T, T, T, Pred>("selp." name, Select<T>)
#define WARPLINE_SLCT(name, T)                           \
  Row3<Slct<T, i32>, T, T, T, i32>("slct." name ".s32"), \
      Row3<Slct<T, f32>, T, T, T, f32>("slct." name ".f32")

constexpr AluRow kRows[] = {
    Row1<Bit<u32>::Popc, u32, u32>("popc.b32"),
    Row1<Bit<u64>::Popc, u32, u64>("popc.b64"),
    Row1<Bit<u32>::Clz, u32, u32>("clz.b32"),
    Row1<Bit<u64>::Clz, u32, u64>("clz.b64"),
    Row1<Bit<u32>::Brev, u32, u32>("brev.b32"),
    Row1<Bit<u64>::Brev, u64, u64>("brev.b64"),
    Row3<Field<u32, u32>::Bfe, u32, u32, u32, u32>("bfe.u32"),
    Row3<Field<i32, u32>::Bfe, i32, i32, u32, u32>("bfe.s32"),
    Row3<Field<u64, u64>::Bfe, u64, u64, u32, u32>("bfe.u64"),
    Row3<Field<i64, u64>::Bfe, i64, i64, u32, u32>("bfe.s64"),
    Row1<Field<u32, u32>::Find, u32, u32>("bfind.u32"),
    Row1<Field<i32, u32>::Find, u32, i32>("bfind.s32"),
    Row1<Field<u64, u64>::Find, u32, u64>("bfind.u64"),
    Row1<Field<i64, u64>::Find, u32, i64>("bfind.s64"),
    Row1<Field<u32, u32>::FindShift, u32, u32>("bfind.shiftamt.u32"),
    Row1<Field<i32, u32>::FindShift, u32, i32>("bfind.shiftamt.s32"),
    Row1<Field<u64, u64>::FindShift, u32, u64>("bfind.shiftamt.u64"),
    Row1<Field<i64, u64>::FindShift, u32, i64>("bfind.shiftamt.s64"),
    Row<u32, u32, u32, u32, u32>("bfi.b32", Bfi<u32>),
    Row<u64, u64, u64, u32, u32>("bfi.b64", Bfi<u64>),
    Row3<Shf<true, true>, u32, u32, u32, u32>("shf.l.wrap.b32"),
    Row3<Shf<true, false>, u32, u32, u32, u32>("shf.l.clamp.b32"),
    Row3<Shf<false, true>, u32, u32, u32, u32>("shf.r.wrap.b32"),
    Row3<Shf<false, false>, u32, u32, u32, u32>("shf.r.clamp.b32"),
    Row3<Prmt<0>, u32, u32, u32, u32>("prmt.b32"),
    Row3<Prmt<1>, u32, u32, u32, u32>("prmt.b32.f4e"),
    Row3<Prmt<2>, u32, u32, u32, u32>("prmt.b32.b4e"),
    Row3<Prmt<3>, u32, u32, u32, u32>("prmt.b32.rc8"),
    Row3<Prmt<4>, u32, u32, u32, u32>("prmt.b32.ecl"),
    Row3<Prmt<5>, u32, u32, u32, u32>("prmt.b32.ecr"),
    Row3<Prmt<6>, u32, u32, u32, u32>("prmt.b32.rc16"),
    Row<u32, u32, u32, u32>("lop3.b32", Lop3),
    Row2<Bmsk<false>, u32, u32, u32>("bmsk.clamp.b32"),
    Row2<Bmsk<true>, u32, u32, u32>("bmsk.wrap.b32"),
    WARPLINE_SELECT("b16", u16),
    WARPLINE_SELECT("u16", u16),
    WARPLINE_SELECT("s16", u16),
    WARPLINE_SELECT("b32", u32),
    WARPLINE_SELECT("u32", u32),
    WARPLINE_SELECT("s32", u32),
    WARPLINE_SELECT("b64", u64),
    WARPLINE_SELECT("u64", u64),
    WARPLINE_SELECT("s64", u64),
    WARPLINE_SELECT("f32", f32),
    WARPLINE_SELECT("f64", f64),
    WARPLINE_SLCT("b16", u16),
    WARPLINE_SLCT("u16", u16),
    WARPLINE_SLCT("s16", u16),
    WARPLINE_SLCT("b32", u32),
    WARPLINE_SLCT("u32", u32),
    WARPLINE_SLCT("s32", u32),
    WARPLINE_SLCT("b64", u64),
    WARPLINE_SLCT("u64", u64),
    WARPLINE_SLCT("s64", u64),
    WARPLINE_SLCT("f32", f32),
    WARPLINE_SLCT("f64", f64),
    Row<Pred, Pred, Pred>("and.pred", PredBinary<PredAnd>),
    Row<Pred, Pred, Pred>("or.pred", PredBinary<PredOr>),
    Row<Pred, Pred, Pred>("xor.pred", PredBinary<PredXor>),
    Row<Pred, Pred>("not.pred", PredNot),
    Row<Pred, Pred>("mov.pred", PredMov),
    // These are not PTX, but lowering needs them besides.
    Row<u16>("broadcast.b16", Broadcast<u16>),
    Row<u32>("broadcast.b32", Broadcast<u32>),
    Row<u64>("broadcast.b64", Broadcast<u64>),
    Row<Pred>("broadcast.pred", BroadcastPred),
    Row<Pred, u64>("window", InWindow),
    Row<Pred, u64>("below_windows", BelowWindows),
    Row<u32, u16, u16>("pack.b32", Pack<u32, u16, 2>),
    Row<u64, u32, u32>("pack.b64", Pack<u64, u32, 2>),
    Row<u64, u16, u16, u16, u16>("pack4.b64", Pack<u64, u16, 4>),
    Row<u16, u16, u32>("unpack.b32", Unpack<u32, u16, 2>),
    Row<u32, u32, u64>("unpack.b64", Unpack<u64, u32, 2>),
    Row<u16, u16, u16, u16, u64>("unpack4.b64", Unpack<u64, u16, 4>),
    Row1<Extend<u16, uint8_t>, u16, u16>("extend.u8.b16"),
    Row1<Extend<u32, uint8_t>, u32, u32>("extend.u8.b32"),
    Row1<Extend<u64, uint8_t>, u64, u64>("extend.u8.b64"),
    Row1<Extend<u16, int8_t>, u16, u16>("extend.s8.b16"),
    Row1<Extend<u32, int8_t>, u32, u32>("extend.s8.b32"),
    Row1<Extend<u64, int8_t>, u64, u64>("extend.s8.b64"),
};

}  // namespace

Rows BitRows() { return {std::begin(kRows), std::end(kRows)}; }

}  // namespace warpline::cpu::WARPLINE_ALU
