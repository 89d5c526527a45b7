// atom and red. Lanes act one after another, in the order of their numbers.
#include <bit>
#include <cstring>
#include <type_traits>

#include "server/device/cpu/alu/half_float.h"
#include "server/device/cpu/execution/block.h"
#include "server/device/cpu/execution/lane_addresses.h"
#include "server/device/cpu/execution/memory_ops.h"

namespace warpline::cpu {
namespace {

// Of(old, b, c) is the new value.
struct Add {
  template <typename T>
  static T Of(T a, T b, T) {
    return static_cast<T>(a + b);
  }
};
// Sums of f16, bf16 and pairs of them, which have no C++ type.
template <typename H>
struct AddHalf {
  static uint16_t Of(uint16_t a, uint16_t b, uint16_t) { return H::Add(a, b); }
  static uint32_t Of(uint32_t a, uint32_t b, uint32_t) {
    const auto low = H::Add(static_cast<uint16_t>(a), static_cast<uint16_t>(b));
    const auto high = H::Add(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16));
    return low | static_cast<uint32_t>(high) << 16;
  }
};
struct Min {
  template <typename T>
  static T Of(T a, T b, T) {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  static T Of(T a, T b, T) {
    return b > a ? b : a;
  }
};
struct And {
  template <typename T>
  static T Of(T a, T b, T) {
    return a & b;
  }
};
struct Or {
  template <typename T>
  static T Of(T a, T b, T) {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  static T Of(T a, T b, T) {
    return a ^ b;
  }
};
struct Exch {
  template <typename T>
  static T Of(T, T b, T) {
    return b;
  }
};
struct Cas {
  template <typename T>
  static T Of(T a, T b, T c) {
    return a == b ? c : a;
  }
};
struct Inc {
  template <typename T>
  static T Of(T a, T b, T) {
    return a >= b ? 0 : a + 1;
  }
};
struct Dec {
  template <typename T>
  static T Of(T a, T b, T) {
    return a == 0 || a > b ? b : a - 1;
  }
};

template <int kBytes>
struct Unsigned {};
template <>
struct Unsigned<2> {
  using U = uint16_t;
};
template <>
struct Unsigned<4> {
  using U = uint32_t;
};
template <>
struct Unsigned<8> {
  using U = uint64_t;
};

// A signed sum may overflow, which the unsigned one does without undefined behaviour, so the table
// gives add the unsigned type.
template <typename F, typename T>
bool Atomic(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask) {
  using U = typename Unsigned<sizeof(T)>::U;
  LaneAddresses lanes;
  if (!ResolveLanes(block, warp, regs, op, mask, sizeof(T), true, &lanes)) return false;
  const auto* b = reinterpret_cast<const T*>(regs + op.r[2]);
  const auto* c = op.r[3] == kNoSlot ? b : reinterpret_cast<const T*>(regs + op.r[3]);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    auto* const at = reinterpret_cast<U*>(lanes.address[i]);
    const T x = b[i];
    const T y = c[i];
    U old;
    if (op.space == Space::kShared) {
      // One host thread runs all threads of a block.
      old = *at;
      *at = std::bit_cast<U>(F::Of(std::bit_cast<T>(old), x, y));
    } else if constexpr (std::is_same_v<F, Add> && std::is_integral_v<T>) {
      old = __atomic_fetch_add(at, x, __ATOMIC_SEQ_CST);
    } else {
      old = __atomic_load_n(at, __ATOMIC_RELAXED);
      while (!__atomic_compare_exchange_n(at, &old,
                                          std::bit_cast<U>(F::Of(std::bit_cast<T>(old), x, y)),
                                          true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
      }
    }
    if (op.r[1] != kNoSlot) {
      std::memcpy(regs + op.r[1] + static_cast<uint32_t>(i) * sizeof(U), &old, sizeof(U));
    }
  }
  return true;
}

template <typename F, typename T>
constexpr AtomicRow Row(const char* operation, const char* type, uint8_t operands = 1) {
  return {operation, type, sizeof(T), operands, Atomic<F, T>};
}

constexpr AtomicRow kRows[] = {
    Row<Add, uint32_t>("add", "u32"),
    Row<Add, uint32_t>("add", "s32"),
    Row<Add, uint64_t>("add", "u64"),
    Row<Add, uint64_t>("add", "s64"),
    Row<Add, float>("add", "f32"),
    Row<Add, double>("add", "f64"),
    Row<Min, uint32_t>("min", "u32"),
    Row<Min, int32_t>("min", "s32"),
    Row<Min, uint64_t>("min", "u64"),
    Row<Min, int64_t>("min", "s64"),
    Row<Max, uint32_t>("max", "u32"),
    Row<Max, int32_t>("max", "s32"),
    Row<Max, uint64_t>("max", "u64"),
    Row<Max, int64_t>("max", "s64"),
    Row<And, uint32_t>("and", "b32"),
    Row<And, uint64_t>("and", "b64"),
    Row<Or, uint32_t>("or", "b32"),
    Row<Or, uint64_t>("or", "b64"),
    Row<Xor, uint32_t>("xor", "b32"),
    Row<Xor, uint64_t>("xor", "b64"),
    Row<Exch, uint32_t>("exch", "b32"),
    Row<Exch, uint64_t>("exch", "b64"),
    Row<Cas, uint16_t>("cas", "b16", 2),
    Row<Cas, uint32_t>("cas", "b32", 2),
    Row<Cas, uint64_t>("cas", "b64", 2),
    Row<Inc, uint32_t>("inc", "u32"),
    Row<Dec, uint32_t>("dec", "u32"),
    Row<AddHalf<F16>, uint16_t>("add", "f16"),
    Row<AddHalf<F16>, uint32_t>("add", "f16x2"),
    Row<AddHalf<Bf16>, uint16_t>("add", "bf16"),
    Row<AddHalf<Bf16>, uint32_t>("add", "bf16x2"),
};

}  // namespace

const AtomicRow* FindAtomic(std::string_view operation, std::string_view type) {
  for (const AtomicRow& row : kRows) {
    if (operation == row.operation && type == row.type) return &row;
  }
  return nullptr;
}

}  // namespace warpline::cpu
