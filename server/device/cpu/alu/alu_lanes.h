// Loops over lanes, which the alu_*.cc files share. Private to them.
//
// Those files are compiled once for each instruction set into namespace WARPLINE_ALU. Nothing here
// may call a function that the linker could merge between the two, so there are no std:: templates.
#ifndef WARPLINE_SERVER_DEVICE_CPU_ALU_ALU_LANES_H_
#define WARPLINE_SERVER_DEVICE_CPU_ALU_ALU_LANES_H_

#include <cstdint>

#include "server/device/cpu/alu/alu.h"
#include "server/device/cpu/machine/op.h"

#ifndef WARPLINE_ALU
#error "compile with -DWARPLINE_ALU=<namespace>"
#endif

#if defined(__clang__)
#define WARPLINE_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define WARPLINE_IVDEP _Pragma("GCC ivdep")
#endif

namespace warpline::cpu::WARPLINE_ALU {

// The rows of one file. `end` is one past the last.
struct Rows {
  const AluRow* begin;
  const AluRow* end;
};
Rows IntegerRows();
Rows WideRows();
Rows BitRows();
Rows FloatRows();
Rows DirectedRows();
Rows ApproxRows();
Rows CompareRows();
Rows ConvertRows();
Rows HalfRows();
Rows SimdRows();
void ComputeAddresses(const uint8_t* regs, const Op& op, uint32_t mask, uint32_t bytes,
                      uint64_t base, AddressSummary* out);

namespace {

using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using f32 = float;
using f64 = double;

// Stands for a predicate among the types of operands.
struct Pred {};

template <typename T>
constexpr char kCode = '?';
template <>
constexpr char kCode<i16> = 'h';
template <>
constexpr char kCode<u16> = 'h';
template <>
constexpr char kCode<i32> = 'i';
template <>
constexpr char kCode<u32> = 'i';
template <>
constexpr char kCode<i64> = 'l';
template <>
constexpr char kCode<u64> = 'l';
template <>
constexpr char kCode<f32> = 'f';
template <>
constexpr char kCode<f64> = 'd';
template <>
constexpr char kCode<Pred> = 'p';

template <typename T>
inline T* Slot(uint8_t* regs, uint32_t offset) {
  return reinterpret_cast<T*>(__builtin_assume_aligned(regs + offset, 64));
}

inline u32& Bits(uint8_t* regs, uint32_t offset) { return *reinterpret_cast<u32*>(regs + offset); }

inline void Assign(u32& bits, u32 value, u32 mask) { bits = (bits & ~mask) | (value & mask); }

// Sets d[i] = value(i) for the lanes of `mask`. A slot is read and written in the same lane only,
// so the loop carries no dependence. `value` must be defined for idle lanes.
template <typename D, typename Value>
inline void ForLanes(D* d, u32 mask, Value value) {
  if (mask == kAllLanes) {
    WARPLINE_IVDEP
    for (int i = 0; i < kLanes; ++i) d[i] = value(i);
  } else {
    WARPLINE_IVDEP
    for (int i = 0; i < kLanes; ++i) {
      const D v = value(i);
      d[i] = (mask >> i & 1) != 0 ? v : d[i];
    }
  }
}

// Does the same for values that are expensive to compute: idle lanes are skipped.
template <typename D, typename Value>
inline void ForActiveLanes(D* d, u32 mask, Value value) {
  for (u32 m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    d[i] = value(i);
  }
}

template <typename F, typename D, typename A>
void Unary(uint8_t* regs, const Op& op, u32 mask) {
  const A* a = Slot<const A>(regs, op.r[1]);
  ForLanes(Slot<D>(regs, op.r[0]), mask, [&](int i) { return F::Of(a[i]); });
}

template <typename F, typename D, typename A, typename B>
void Binary(uint8_t* regs, const Op& op, u32 mask) {
  const A* a = Slot<const A>(regs, op.r[1]);
  const B* b = Slot<const B>(regs, op.r[2]);
  ForLanes(Slot<D>(regs, op.r[0]), mask, [&](int i) { return F::Of(a[i], b[i]); });
}

template <typename F, typename D, typename A, typename B, typename C>
void Ternary(uint8_t* regs, const Op& op, u32 mask) {
  const A* a = Slot<const A>(regs, op.r[1]);
  const B* b = Slot<const B>(regs, op.r[2]);
  const C* c = Slot<const C>(regs, op.r[3]);
  ForLanes(Slot<D>(regs, op.r[0]), mask, [&](int i) { return F::Of(a[i], b[i], c[i]); });
}

template <typename F, typename D, typename A>
void SlowUnary(uint8_t* regs, const Op& op, u32 mask) {
  const A* a = Slot<const A>(regs, op.r[1]);
  ForActiveLanes(Slot<D>(regs, op.r[0]), mask, [&](int i) { return F::Of(a[i]); });
}

template <typename F, typename D, typename A, typename B>
void SlowBinary(uint8_t* regs, const Op& op, u32 mask) {
  const A* a = Slot<const A>(regs, op.r[1]);
  const B* b = Slot<const B>(regs, op.r[2]);
  ForActiveLanes(Slot<D>(regs, op.r[0]), mask, [&](int i) { return F::Of(a[i], b[i]); });
}

template <typename F, typename D, typename A, typename B, typename C>
void SlowTernary(uint8_t* regs, const Op& op, u32 mask) {
  const A* a = Slot<const A>(regs, op.r[1]);
  const B* b = Slot<const B>(regs, op.r[2]);
  const C* c = Slot<const C>(regs, op.r[3]);
  ForActiveLanes(Slot<D>(regs, op.r[0]), mask, [&](int i) { return F::Of(a[i], b[i], c[i]); });
}

template <typename... T>
constexpr AluRow Row(const char* mnemonic, AluFn fn) {
  return AluRow{mnemonic, {kCode<T>...}, fn, false};
}
template <typename F, typename D, typename A>
constexpr AluRow Row1(const char* mnemonic) {
  return Row<D, A>(mnemonic, Unary<F, D, A>);
}
template <typename F, typename D, typename A, typename B>
constexpr AluRow Row2(const char* mnemonic) {
  return Row<D, A, B>(mnemonic, Binary<F, D, A, B>);
}
template <typename F, typename D, typename A, typename B, typename C>
constexpr AluRow Row3(const char* mnemonic) {
  return Row<D, A, B, C>(mnemonic, Ternary<F, D, A, B, C>);
}

}  // namespace
}  // namespace warpline::cpu::WARPLINE_ALU

#endif  // WARPLINE_SERVER_DEVICE_CPU_ALU_ALU_LANES_H_
