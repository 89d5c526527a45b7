// The instruction loop.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/device/cpu/execution/block.h"
#include "server/device/cpu/execution/lane_registers.h"

namespace warpline::cpu {
namespace {

// The number of instructions, roughly, before a group yields to others of its warp.
constexpr int64_t kGroupTurn = 2000;
constexpr int64_t kOrderedCost = 50;

int64_t NowNs(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// A read-modify-write of one word that all share is as strong as a fence instruction, and
// ThreadSanitizer understands it.
void Fence() {
  static std::atomic<uint32_t> word{0};
  word.fetch_add(0, std::memory_order_seq_cst);
}

// Sleeps for as long as the longest of the lanes says, and as long as hardware does at most. Other
// warps of the block wait meanwhile, so one that waits for another by short naps only gives its
// turn away.
void Nap(const uint8_t* regs, uint32_t slot, uint32_t mask) {
  constexpr uint32_t kLeastNs = 10'000, kMostNs = 1'000'000;
  uint32_t longest_ns = 0;
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    longest_ns = std::max(longest_ns, Lane<uint32_t>(regs, slot, __builtin_ctz(left)));
  }
  if (longest_ns < kLeastNs) return;
  const timespec nap = {0, static_cast<long>(std::min(longest_ns, kMostNs))};
  nanosleep(&nap, nullptr);
}

template <typename T>
void FillLanes(uint8_t* slot, uint32_t mask, T value) {
  T* const lanes = reinterpret_cast<T*>(slot);
  for (int i = 0; i < kLanes; ++i) {
    if ((mask >> i & 1) != 0) lanes[i] = value;
  }
}

}  // namespace

bool Block::Execute(Warp& warp, int64_t* budget) {
  Group& group = warp.current;
  const Op* const ops = code_.ops.data();
  int64_t turn = kGroupTurn;
  join_pc_ = NextJoin(warp);
  uint8_t* regs = warp.regs + group.frame;
  uint32_t pc = group.pc;
  while (pc < join_pc_) {
    const Op& op = ops[pc];
    uint32_t mask = group.mask;
    if (op.guard != kNoSlot) {
      const uint32_t bits = PredicateBits(regs, op.guard);
      mask &= op.guard_negated ? ~bits : bits;
    }
    if (op.kind == OpKind::kAlu) {
      if (mask != 0) op.alu(regs, op, mask);
      ++pc;
      continue;
    }
    if (mask == 0) {
      ++pc;
      continue;
    }
    group.pc = pc;
    switch (op.kind) {
      case OpKind::kLoad:
      case OpKind::kStore:
      case OpKind::kAtomic:
        if (!op.memory(*this, warp, regs, op, mask)) return false;
        // The group may be waiting for another, which should soon have its turn.
        if (op.ordered) *budget -= kOrderedCost;
        *budget -= op.cost;
        ++pc;
        continue;
      case OpKind::kBranch: {
        const bool back = op.target <= pc;
        if (back) {
          const int64_t cost = int64_t{pc} - op.target + 1;
          turn -= cost;
          *budget -= cost;
        }
        if (mask != group.mask) ParkRest(warp, mask);
        group.pc = op.target;
        if (back && *budget <= 0) return true;
        if (back && turn <= 0) {
          if (HasReady(warp)) {
            group.yielded = true;
            return true;
          }
          turn = kGroupTurn;
        }
        if (warp.waiting_count != 0) join_pc_ = NextJoin(warp);
        // The fall-through lies before a forward target, so it runs first.
        if (group.pc > pc && mask != kAllLanes && HasReady(warp)) return true;
        pc = group.pc;
        continue;
      }
      case OpKind::kLocalAddress:
        FillLanes<uint64_t>(regs + op.r[0], mask, op.imm + group.local_frame);
        ++pc;
        continue;
      case OpKind::kSpecial:
        FillSpecial(warp, regs, op.special, op.r[0], mask);
        ++pc;
        continue;
      case OpKind::kActiveMask:
        FillLanes<uint32_t>(regs + op.r[0], mask, mask);
        ++pc;
        continue;
      case OpKind::kFence:
        Fence();
        ++pc;
        continue;
      case OpKind::kSleep:
        Nap(regs, op.r[0], mask);
        // The group that is waited for should run instead.
        *budget -= kGroupTurn;
        group.pc = ++pc;
        group.yielded = true;
        return true;
      case OpKind::kTrap:
        return Fault(
            static_cast<CudaResult>(op.imm), op,
            static_cast<CudaResult>(op.imm) == CudaResult::kAssert ? "assertion failed" : "trap");
      case OpKind::kExit:
        group.pc = pc + 1;
        ExitLanes(warp, mask);
        if (group.mask == 0) return true;
        join_pc_ = NextJoin(warp);
        ++pc;
        continue;
      case OpKind::kBarrier:
        ParkRest(warp, mask);
        if (!EnterBarrier(warp, op, mask)) return false;
        if (group.mask == 0) return true;
        break;
      case OpKind::kWarpSync:
        ParkRest(warp, mask);
        EnterWarpSync(warp, op, mask);
        if (group.mask == 0) return true;
        break;
      case OpKind::kCall:
        *budget -= 1;
        ParkRest(warp, mask);
        if (!Call(warp, op, op.target, mask)) return false;
        if (*budget <= 0) return true;
        break;
      case OpKind::kCallIndirect:
        *budget -= 1;
        if (!CallIndirect(warp, op, mask)) return false;
        if (*budget <= 0) return true;
        break;
      case OpKind::kReturn:
        ParkRest(warp, mask);
        Return(warp, mask);
        if (group.mask == 0) return true;
        break;
      case OpKind::kAlu:
        break;
    }
    // The group has changed.
    pc = group.pc;
    regs = warp.regs + group.frame;
    join_pc_ = NextJoin(warp);
    if (join_pc_ == pc) return true;
  }
  group.pc = pc;
  return true;
}

// Lanes that call the same function go there; the others stay and have their turn after it.
bool Block::CallIndirect(Warp& warp, const Op& op, uint32_t mask) {
  Group& group = warp.current;
  const auto* const addresses =
      reinterpret_cast<const uint64_t*>(warp.regs + group.frame + op.r[0]);
  const uint64_t address = addresses[__builtin_ctz(mask)];
  uint32_t same = 0;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    if (addresses[__builtin_ctz(m)] == address) same |= m & -m;
  }
  const auto& targets = code_.indirect_calls[op.target].targets;
  const auto found =
      std::lower_bound(targets.begin(), targets.end(), std::make_pair(address, uint32_t{0}));
  if (found == targets.end() || found->first != address) {
    return Fault(CudaResult::kInvalidPc, op, absl::StrCat("call of address ", address));
  }
  if (same != mask) {
    Group others = group;
    others.mask = mask & ~same;
    Park(warp, others);
    group.mask &= ~others.mask;
  }
  ParkRest(warp, same);
  return Call(warp, op, found->second, same);
}

bool Block::Call(Warp& warp, const Op& op, uint32_t site_index, uint32_t mask) {
  const CallSite& site = code_.calls[site_index];
  const FunctionCode& caller = code_.functions[site.caller];
  const FunctionCode& callee = code_.functions[site.function];
  Group& group = warp.current;
  Group next = group;
  next.depth = group.depth + 1;
  next.frame = group.frame + caller.frame_bytes;
  next.local_frame = group.local_frame + caller.local_bytes;
  next.pc = callee.entry_pc;
  if (next.depth > max_depth_ || next.frame + callee.frame_bytes > register_bytes_ ||
      next.local_frame + callee.local_bytes > local_bytes_) {
    return Fault(CudaResult::kHardwareStackError, op,
                 absl::StrCat("stack overflow calling ", callee.name));
  }
  if (warp.returns.size() < next.depth) warp.returns.resize(next.depth);
  for (int i = 0; i < kLanes; ++i) {
    if ((mask >> i & 1) != 0) {
      warp.returns[group.depth][static_cast<size_t>(i)] = {group.pc + 1, group.frame,
                                                           group.local_frame, site_index};
    }
  }
  for (const CallCopy& copy : site.arguments) CopyCall(warp, copy, group, next, mask, true);
  group = next;
  return true;
}

void Block::Return(Warp& warp, uint32_t mask) {
  Group& group = warp.current;
  if (group.depth == 0) {
    ExitLanes(warp, mask);
    return;
  }
  // Lanes that came from different calls part here.
  const Group callee = group;
  Group first;
  for (uint32_t left = mask; left != 0;) {
    const auto& frames = warp.returns[callee.depth - 1];
    const ReturnFrame frame = frames[static_cast<size_t>(__builtin_ctz(left))];
    uint32_t same = 0;
    for (uint32_t m = left; m != 0; m &= m - 1) {
      const ReturnFrame& other = frames[static_cast<size_t>(__builtin_ctz(m))];
      if (other.pc == frame.pc && other.site == frame.site && other.frame == frame.frame &&
          other.local_frame == frame.local_frame) {
        same |= m & -m;
      }
    }
    left &= ~same;
    Group back = callee;
    back.mask = same;
    back.depth = callee.depth - 1;
    back.pc = frame.pc;
    back.frame = frame.frame;
    back.local_frame = frame.local_frame;
    const CallSite& site = code_.calls[frame.site];
    for (const CallCopy& copy : site.results) CopyCall(warp, copy, back, callee, same, false);
    if (first.mask == 0) {
      first = back;
    } else {
      Park(warp, back);
    }
  }
  group = first;
}

void Block::CopyCall(Warp& warp, const CallCopy& copy, const Group& caller, const Group& callee,
                     uint32_t mask, bool to_callee) {
  if (copy.is_register) {
    uint8_t* const outer = warp.regs + caller.frame + copy.caller;
    uint8_t* const inner = warp.regs + callee.frame + copy.callee;
    uint8_t* const to = to_callee ? inner : outer;
    const uint8_t* const from = to_callee ? outer : inner;
    if (copy.bytes == 0) {
      const uint32_t bits = (PredicateBits(to, 0) & ~mask) | (PredicateBits(from, 0) & mask);
      std::memcpy(to, &bits, sizeof(bits));
      return;
    }
    for (uint32_t m = mask; m != 0; m &= m - 1) {
      const uint32_t at = static_cast<uint32_t>(__builtin_ctz(m)) * copy.bytes;
      std::memcpy(to + at, from + at, copy.bytes);
    }
    return;
  }
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    uint8_t* const base = local(warp, __builtin_ctz(m));
    uint8_t* const outer = base + caller.local_frame + copy.caller;
    uint8_t* const inner = base + callee.local_frame + copy.callee;
    std::memcpy(to_callee ? inner : outer, to_callee ? outer : inner, copy.bytes);
  }
}

void Block::FillSpecial(const Warp& warp, uint8_t* regs, Special special, uint32_t slot,
                        uint32_t mask) {
  uint8_t* const at = regs + slot;
  auto* const lanes = reinterpret_cast<uint32_t*>(at);
  const auto per_lane = [&](auto value) {
    for (uint32_t i = 0; i < kLanes; ++i) {
      if ((mask >> i & 1) != 0) lanes[i] = value(i);
    }
  };
  const auto fill = [&](uint64_t value) { FillLanes(at, mask, static_cast<uint32_t>(value)); };
  const uint32_t first = warp.index * kLanes;
  const auto& block = shape_.block;
  switch (special) {
    case Special::kTidX:
      return per_lane([&](uint32_t i) { return (first + i) % block[0]; });
    case Special::kTidY:
      return per_lane([&](uint32_t i) { return (first + i) / block[0] % block[1]; });
    case Special::kTidZ:
      return per_lane([&](uint32_t i) { return (first + i) / block[0] / block[1]; });
    case Special::kNtidX:
      return fill(block[0]);
    case Special::kNtidY:
      return fill(block[1]);
    case Special::kNtidZ:
      return fill(block[2]);
    case Special::kCtaidX:
      return fill(index_[0]);
    case Special::kCtaidY:
      return fill(index_[1]);
    case Special::kCtaidZ:
      return fill(index_[2]);
    case Special::kNctaidX:
      return fill(shape_.grid[0]);
    case Special::kNctaidY:
      return fill(shape_.grid[1]);
    case Special::kNctaidZ:
      return fill(shape_.grid[2]);
    case Special::kLaneId:
      return per_lane([](uint32_t i) { return i; });
    case Special::kWarpId:
      return fill(warp.index);
    case Special::kNwarpId:
      return fill(warp_count_);
    case Special::kSmId:
      return fill(index_[0] % shape_.multiprocessors);
    case Special::kNsmId:
      return fill(shape_.multiprocessors);
    case Special::kGridId:
      return FillLanes<uint64_t>(at, mask, shape_.grid_id);
    case Special::kLanemaskEq:
      return per_lane([](uint32_t i) { return 1u << i; });
    case Special::kLanemaskLe:
      return per_lane([](uint32_t i) { return (2u << i) - 1; });
    case Special::kLanemaskLt:
      return per_lane([](uint32_t i) { return (1u << i) - 1; });
    case Special::kLanemaskGe:
      return per_lane([](uint32_t i) { return ~((1u << i) - 1); });
    case Special::kLanemaskGt:
      return per_lane([](uint32_t i) { return ~((2u << i) - 1); });
    case Special::kClock:
      return fill(static_cast<uint64_t>(NowNs(CLOCK_MONOTONIC)));
    case Special::kClockHi:
      return fill(static_cast<uint64_t>(NowNs(CLOCK_MONOTONIC)) >> 32);
    case Special::kClock64:
      return FillLanes<uint64_t>(at, mask, static_cast<uint64_t>(NowNs(CLOCK_MONOTONIC)));
    case Special::kGlobaltimer:
      return FillLanes<uint64_t>(at, mask, static_cast<uint64_t>(NowNs(CLOCK_REALTIME)));
    case Special::kGlobaltimerLo:
      return fill(static_cast<uint64_t>(NowNs(CLOCK_REALTIME)));
    case Special::kGlobaltimerHi:
      return fill(static_cast<uint64_t>(NowNs(CLOCK_REALTIME)) >> 32);
    case Special::kEnvReg1:
      return fill(shape_.workspace >> 32);
    case Special::kEnvReg2:
      return fill(shape_.workspace);
    case Special::kZero:
      return fill(0);
    case Special::kOne:
      return fill(1);
    case Special::kTotalSmem:
      return fill(program_shared_bytes_);
    case Special::kAggrSmem:
      return fill(shared_bytes_);
    case Special::kDynamicSmem:
      return fill(shape_.dynamic_shared_bytes);
  }
}

}  // namespace warpline::cpu
