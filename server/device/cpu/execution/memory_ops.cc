#include "server/device/cpu/execution/memory_ops.h"

#include "server/device/cpu/execution/block.h"
#include "server/device/cpu/execution/lane_addresses.h"

namespace warpline::cpu {
namespace {

template <typename M>
M* At(uint64_t host) {
  return reinterpret_cast<M*>(host);
}

// What a load writes into a register: with the sign of M, where it has one.
template <typename R, typename M>
R Extend(M value) {
  return static_cast<R>(value);  // NOLINT(bugprone-signed-char-misuse)
}

// M is the type in memory, and R that of the register.
template <typename M, typename R>
bool Load(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask) {
  LaneAddresses lanes;
  if (!ResolveLanes(block, warp, regs, op, mask, op.vector * sizeof(M), false, &lanes)) {
    return false;
  }
  if (op.ordered) {
    for (int v = 0; v < op.vector; ++v) {
      R* const d = reinterpret_cast<R*>(regs + op.r[1 + v]);
      for (uint32_t m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        d[i] = Extend<R>(__atomic_load_n(At<M>(lanes.address[i]) + v, __ATOMIC_ACQUIRE));
      }
    }
    return true;
  }
  if (lanes.consecutive && op.vector == 1) {
    R* const d = reinterpret_cast<R*>(regs + op.r[1]);
    const M* const s = At<const M>(lanes.address[0]);
    for (int i = 0; i < kLanes; ++i) d[i] = Extend<R>(s[i]);
    return true;
  }
  for (int v = 0; v < op.vector; ++v) {
    R* const d = reinterpret_cast<R*>(regs + op.r[1 + v]);
    if (mask == kAllLanes) {
      for (int i = 0; i < kLanes; ++i) d[i] = Extend<R>(At<const M>(lanes.address[i])[v]);
      continue;
    }
    for (uint32_t m = mask; m != 0; m &= m - 1) {
      const int i = __builtin_ctz(m);
      d[i] = Extend<R>(At<const M>(lanes.address[i])[v]);
    }
  }
  return true;
}

template <typename M, typename R>
bool Store(Block& block, Warp& warp, uint8_t* regs, const Op& op, uint32_t mask) {
  LaneAddresses lanes;
  if (!ResolveLanes(block, warp, regs, op, mask, op.vector * sizeof(M), true, &lanes)) return false;
  if (op.ordered) {
    // A release orders what the thread did before it; the stronger order serves all.
    for (uint32_t m = mask; m != 0; m &= m - 1) {
      const int i = __builtin_ctz(m);
      for (int v = 0; v < op.vector; ++v) {
        const R* const s = reinterpret_cast<const R*>(regs + op.r[1 + v]);
        __atomic_store_n(At<M>(lanes.address[i]) + v, static_cast<M>(s[i]), __ATOMIC_RELEASE);
      }
    }
    return true;
  }
  if (lanes.consecutive && op.vector == 1) {
    const R* const s = reinterpret_cast<const R*>(regs + op.r[1]);
    M* const d = At<M>(lanes.address[0]);
    for (int i = 0; i < kLanes; ++i) d[i] = static_cast<M>(s[i]);
    return true;
  }
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    for (int v = 0; v < op.vector; ++v) {
      const R* const s = reinterpret_cast<const R*>(regs + op.r[1 + v]);
      At<M>(lanes.address[i])[v] = static_cast<M>(s[i]);
    }
  }
  return true;
}

template <typename M>
MemoryFn LoadInto(Width width) {
  // Sign extension follows from M: a signed M widens with its sign.
  switch (width) {
    case Width::k16:
      return sizeof(M) <= 2 ? Load<M, uint16_t> : nullptr;
    case Width::k32:
      return sizeof(M) <= 4 ? Load<M, uint32_t> : nullptr;
    case Width::k64:
      return Load<M, uint64_t>;
    default:
      return nullptr;
  }
}

template <typename M>
MemoryFn StoreFrom(Width width) {
  switch (width) {
    case Width::k16:
      return sizeof(M) <= 2 ? Store<M, uint16_t> : nullptr;
    case Width::k32:
      return sizeof(M) <= 4 ? Store<M, uint32_t> : nullptr;
    case Width::k64:
      return Store<M, uint64_t>;
    default:
      return nullptr;
  }
}

}  // namespace

MemoryFn FindLoad(int bytes, bool is_signed, Width width) {
  switch (bytes) {
    case 1:
      return is_signed ? LoadInto<int8_t>(width) : LoadInto<uint8_t>(width);
    case 2:
      return is_signed ? LoadInto<int16_t>(width) : LoadInto<uint16_t>(width);
    case 4:
      return is_signed ? LoadInto<int32_t>(width) : LoadInto<uint32_t>(width);
    case 8:
      return LoadInto<uint64_t>(width);
    default:
      return nullptr;
  }
}

MemoryFn FindStore(int bytes, Width width) {
  switch (bytes) {
    case 1:
      return StoreFrom<uint8_t>(width);
    case 2:
      return StoreFrom<uint16_t>(width);
    case 4:
      return StoreFrom<uint32_t>(width);
    case 8:
      return StoreFrom<uint64_t>(width);
    default:
      return nullptr;
  }
}

}  // namespace warpline::cpu
