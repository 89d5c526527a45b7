// Barriers of a block, and exchanges between the lanes of a warp.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/device/cpu/execution/block.h"
#include "server/device/cpu/execution/lane_registers.h"

namespace warpline::cpu {
namespace {

void SetPredicate(uint8_t* regs, uint32_t slot, uint32_t mask, bool value) {
  SetPredicateBits(regs, slot, (PredicateBits(regs, slot) & ~mask) | (value ? mask : 0));
}

// Returns the lane that shfl reads from, and whether it is in range.
int ShuffleSource(WarpSyncKind kind, int lane, uint32_t b, uint32_t c, bool* in_range) {
  const int by = static_cast<int>(b & 31);
  const int segment = static_cast<int>(c >> 8 & 31);
  const int clamp = static_cast<int>(c & 31);
  const int max_lane = (lane & segment) | (clamp & ~segment);
  int source;
  switch (kind) {
    case WarpSyncKind::kShflUp:
      source = lane - by;
      *in_range = source >= max_lane;
      break;
    case WarpSyncKind::kShflDown:
      source = lane + by;
      *in_range = source <= max_lane;
      break;
    case WarpSyncKind::kShflBfly:
      source = lane ^ by;
      *in_range = source <= max_lane;
      break;
    default:
      source = (lane & segment) | (by & ~segment);
      *in_range = source <= max_lane;
      break;
  }
  return *in_range ? source & 31 : lane;
}

uint32_t Reduce(WarpSyncKind kind, uint32_t a, uint32_t b) {
  const auto sa = static_cast<int32_t>(a), sb = static_cast<int32_t>(b);
  switch (kind) {
    case WarpSyncKind::kReduxAdd:
      return a + b;
    case WarpSyncKind::kReduxMinU:
      return a < b ? a : b;
    case WarpSyncKind::kReduxMaxU:
      return a > b ? a : b;
    case WarpSyncKind::kReduxMinS:
      return sa < sb ? a : b;
    case WarpSyncKind::kReduxMaxS:
      return sa > sb ? a : b;
    case WarpSyncKind::kReduxAnd:
      return a & b;
    case WarpSyncKind::kReduxOr:
      return a | b;
    default:
      return a ^ b;
  }
}

// Four lanes hold a row of the tile, two elements each, the first in the lower half.
uint32_t TransposedPair(const uint64_t (&values)[kLanes], int lane) {
  const int row = lane / 4;
  uint32_t pair = 0;
  for (const int half : {0, 1}) {
    const int column = lane % 4 * 2 + half;
    const auto element = static_cast<uint16_t>(values[column * 4 + row / 2] >> (row % 2 * 16));
    pair |= uint32_t{element} << (16 * half);
  }
  return pair;
}

bool IsShuffle(WarpSyncKind kind) {
  return kind >= WarpSyncKind::kShflUp && kind <= WarpSyncKind::kShflIdx;
}
bool IsVote(WarpSyncKind kind) {
  return kind >= WarpSyncKind::kVoteAll && kind <= WarpSyncKind::kVoteBallot;
}

}  // namespace

bool Block::EnterBarrier(Warp& warp, const Op& op, uint32_t mask) {
  if (op.barrier == BarrierKind::kWarpgroup) {
    EnterWarpgroupBarrier(warp);
    return true;
  }
  Group& group = warp.current;
  const uint8_t* const regs = warp.regs + group.frame;
  const int first = __builtin_ctz(mask);
  const uint32_t id = Lane<uint32_t>(regs, op.r[1], first);
  const uint32_t count = op.r[2] == kNoSlot ? 0 : Lane<uint32_t>(regs, op.r[2], first);
  if (id >= kNamedBarriers || count % kLanes != 0) {
    return Fault(CudaResult::kIllegalInstruction, op,
                 absl::StrCat("barrier ", id, " with ", count, " threads"));
  }
  if (!JoinBarrier(op, id, count)) return false;
  if (op.barrier == BarrierKind::kArrive) {
    Barrier& barrier = barriers_[id];
    if (warp.arrive_lanes != 0 && warp.arrive_barrier != id) {
      return Fault(CudaResult::kIllegalInstruction, op, "parts of a warp at different barriers");
    }
    warp.arrive_barrier = id;
    group.pc += 1;
    warp.arrive_lanes |= mask;
    if ((warp.alive & ~warp.arrive_lanes) == 0) {
      warp.arrive_lanes = 0;
      barrier.arrived += kLanes;
      CheckBarrier(id);
    }
    return true;
  }
  WaitAtBarrier(warp, id, count);
  return true;
}

// Seen on an H100: the context ends where some come to a number for so many threads, or to reduce,
// and others for another number of threads, or not to reduce.
bool Block::JoinBarrier(const Op& op, uint32_t id, uint32_t threads) {
  const bool reduces = op.barrier == BarrierKind::kPopc || op.barrier == BarrierKind::kAnd ||
                       op.barrier == BarrierKind::kOr;
  const auto all_of = [this](uint32_t count) { return count == 0 ? warp_count_ * kLanes : count; };
  Barrier& barrier = barriers_[id];
  if (barrier.in_use &&
      (barrier.reduces != reduces || all_of(barrier.expected) != all_of(threads))) {
    return Fault(CudaResult::kIllegalInstruction, op,
                 absl::StrCat("barrier ", id, ", to which others have come in another form"));
  }
  barrier.in_use = true;
  barrier.reduces = reduces;
  barrier.expected = threads;
  return true;
}

// The last warpgroup of a block may have fewer warps than others.
void Block::EnterWarpgroupBarrier(Warp& warp) {
  const uint32_t warpgroup = warp.index / kWarpsPerWarpgroup;
  const uint32_t warps = std::min(warp_count_ - warpgroup * kWarpsPerWarpgroup, kWarpsPerWarpgroup);
  WaitAtBarrier(warp, kNamedBarriers + warpgroup, warps * kLanes);
}

// `threads` is how many of them come there; 0 means all of the block.
void Block::WaitAtBarrier(Warp& warp, uint32_t id, uint32_t threads) {
  barriers_[id].in_use = true;
  barriers_[id].expected = threads;
  Group& group = warp.current;
  group.state = GroupState::kAtBarrier;
  group.barrier = static_cast<uint8_t>(id);
  Park(warp, group);
  group.mask = 0;
  group.state = GroupState::kReady;
}

// A warp counts as arrived when all its lanes wait at one barrier, even at different instructions.
// Seen on an H100: the context ends where they wait at different ones.
bool Block::WarpSettled(Warp& warp) {
  if (warp.alive == 0 || warp.arrived_barrier != kNoSlot || warp.waiting_count == 0) return true;
  const uint32_t id = warp.waiting[0].barrier;
  bool is_one = true;
  for (uint32_t i = 0; i < warp.waiting_count; ++i) {
    const Group& group = warp.waiting[i];
    if (group.state != GroupState::kAtBarrier) return true;
    is_one = is_one && group.barrier == id;
  }
  if (!is_one) {
    return Fault(CudaResult::kIllegalInstruction, code_.ops[warp.waiting[0].pc],
                 "parts of a warp at different barriers");
  }
  warp.arrived_barrier = id;
  ++barriers_[id].warps;
  CheckBarrier(id);
  return true;
}

void Block::CheckBarrier(uint32_t id) {
  const Barrier& barrier = barriers_[id];
  if (!barrier.in_use) return;
  const bool complete = barrier.expected == 0
                            ? barrier.warps * kLanes + barrier.arrived >= live_warps_ * kLanes
                            : barrier.warps * kLanes + barrier.arrived >= barrier.expected;
  if (complete) ReleaseBarrier(id);
}

void Block::ReleaseBarrier(uint32_t id) {
  uint32_t yes = 0;
  uint32_t threads = 0;
  const auto for_each_group = [&](auto visit) {
    for (Warp& warp : warps_) {
      if (warp.arrived_barrier != id) continue;
      for (uint32_t i = 0; i < warp.waiting_count; ++i) visit(warp, warp.waiting[i]);
    }
  };
  for_each_group([&](Warp& warp, Group& group) {
    const Op& op = code_.ops[group.pc];
    threads += static_cast<uint32_t>(__builtin_popcount(group.mask));
    if (op.barrier == BarrierKind::kSync || op.barrier == BarrierKind::kWarpgroup) return;
    uint32_t bits = PredicateBits(warp.regs + group.frame, op.r[3]);
    if (op.negated) bits = ~bits;
    yes += static_cast<uint32_t>(__builtin_popcount(bits & group.mask));
  });
  for_each_group([&](Warp& warp, Group& group) {
    const Op& op = code_.ops[group.pc];
    uint8_t* const regs = warp.regs + group.frame;
    switch (op.barrier) {
      case BarrierKind::kPopc:
        for (uint32_t m = group.mask; m != 0; m &= m - 1) {
          SetLane<uint32_t>(regs, op.r[0], __builtin_ctz(m), yes);
        }
        break;
      case BarrierKind::kAnd:
        SetPredicate(regs, op.r[0], group.mask, yes == threads);
        break;
      case BarrierKind::kOr:
        SetPredicate(regs, op.r[0], group.mask, yes != 0);
        break;
      default:
        break;
    }
    group.state = GroupState::kReady;
    ++group.pc;
  });
  for (Warp& warp : warps_) {
    if (warp.arrived_barrier != id) continue;
    warp.arrived_barrier = kNoSlot;
    // Groups that waited at different instructions may have met.
    const auto groups = warp.waiting;
    const uint32_t count = warp.waiting_count;
    warp.waiting_count = 0;
    for (uint32_t i = 0; i < count; ++i) Park(warp, groups[i]);
  }
  barriers_[id] = Barrier();
}

void Block::EnterWarpSync(Warp& warp, const Op& op, uint32_t mask) {
  Group& group = warp.current;
  const uint8_t* const regs = warp.regs + group.frame;
  uint32_t pcs[kLanes], frames[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    pcs[i] = group.pc;
    frames[i] = group.frame;
  }
  uint32_t done = 0;
  for (uint32_t left = mask; left != 0;) {
    // Lanes that name the same members exchange among themselves.
    const uint32_t members = Lane<uint32_t>(regs, op.r[5], __builtin_ctz(left));
    uint32_t same = 0;
    for (uint32_t m = left; m != 0; m &= m - 1) {
      if (Lane<uint32_t>(regs, op.r[5], __builtin_ctz(m)) == members) same |= m & -m;
    }
    left &= ~same;
    if ((members & warp.alive & ~same) == 0) {
      Exchange(warp, same, pcs, frames);
      done |= same;
    } else {
      Group wait = group;
      wait.mask = same;
      wait.state = GroupState::kAtWarpSync;
      wait.sync_mask = members;
      Park(warp, wait);
    }
  }
  group.mask = done;
  group.pc += 1;
  if (done != mask) ResolveWarpSync(warp);
}

void Block::ResolveWarpSync(Warp& warp) {
  for (uint32_t i = 0; i < warp.waiting_count; ++i) {
    if (warp.waiting[i].state != GroupState::kAtWarpSync) continue;
    const uint32_t members = warp.waiting[i].sync_mask;
    uint32_t here = 0;
    uint32_t pcs[kLanes] = {}, frames[kLanes] = {};
    for (uint32_t k = 0; k < warp.waiting_count; ++k) {
      const Group& group = warp.waiting[k];
      if (group.state != GroupState::kAtWarpSync || group.sync_mask != members) continue;
      here |= group.mask;
      for (uint32_t m = group.mask; m != 0; m &= m - 1) {
        pcs[__builtin_ctz(m)] = group.pc;
        frames[__builtin_ctz(m)] = group.frame;
      }
    }
    if ((members & warp.alive & ~here) != 0) continue;
    Exchange(warp, here, pcs, frames);
    const auto groups = warp.waiting;
    const uint32_t count = warp.waiting_count;
    warp.waiting_count = 0;
    for (uint32_t k = 0; k < count; ++k) {
      Group group = groups[k];
      if (group.state == GroupState::kAtWarpSync && group.sync_mask == members) {
        group.state = GroupState::kReady;
        ++group.pc;
      }
      Park(warp, group);
    }
    i = UINT32_MAX;  // The list has changed, so start again.
  }
}

void Block::Exchange(Warp& warp, uint32_t lanes, const uint32_t pcs[kLanes],
                     const uint32_t frames[kLanes]) {
  // Every lane contributes first; then every lane gets its result.
  uint64_t values[kLanes] = {};
  uint32_t votes = 0;
  uint32_t reduced = 0;
  bool first = true;
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    const Op& op = code_.ops[pcs[i]];
    const uint8_t* const regs = warp.regs + frames[i];
    if (op.warp_sync == WarpSyncKind::kBarrier || op.warp_sync == WarpSyncKind::kElect) continue;
    if (IsVote(op.warp_sync)) {
      votes |= ((PredicateBits(regs, op.r[2]) >> i & 1) ^ (op.negated ? 1u : 0u)) << i;
      continue;
    }
    values[i] = op.wide ? Lane<uint64_t>(regs, op.r[2], i) : Lane<uint32_t>(regs, op.r[2], i);
    const auto value = static_cast<uint32_t>(values[i]);
    reduced = first ? value : Reduce(op.warp_sync, reduced, value);
    first = false;
  }
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const int i = __builtin_ctz(m);
    const Op& op = code_.ops[pcs[i]];
    uint8_t* const regs = warp.regs + frames[i];
    const uint32_t bit = 1u << i;
    if (IsShuffle(op.warp_sync)) {
      bool in_range;
      const int source = ShuffleSource(op.warp_sync, i, Lane<uint32_t>(regs, op.r[3], i),
                                       Lane<uint32_t>(regs, op.r[4], i), &in_range);
      if (op.r[0] != kNoSlot) {
        SetLane<uint32_t>(regs, op.r[0], i, static_cast<uint32_t>(values[source]));
      }
      if (op.r[1] != kNoSlot) SetPredicate(regs, op.r[1], bit, in_range);
      continue;
    }
    switch (op.warp_sync) {
      case WarpSyncKind::kBarrier:
        break;
      case WarpSyncKind::kVoteAll:
        SetPredicate(regs, op.r[0], bit, votes == lanes);
        break;
      case WarpSyncKind::kVoteAny:
        SetPredicate(regs, op.r[0], bit, votes != 0);
        break;
      case WarpSyncKind::kVoteUni:
        SetPredicate(regs, op.r[0], bit, votes == lanes || votes == 0);
        break;
      case WarpSyncKind::kVoteBallot:
        SetLane<uint32_t>(regs, op.r[0], i, votes);
        break;
      case WarpSyncKind::kMatchAny:
      case WarpSyncKind::kMatchAll: {
        uint32_t equal = 0;
        for (uint32_t k = lanes; k != 0; k &= k - 1) {
          if (values[__builtin_ctz(k)] == values[i]) equal |= k & -k;
        }
        const bool all = equal == lanes;
        const bool any = op.warp_sync == WarpSyncKind::kMatchAny;
        SetLane<uint32_t>(regs, op.r[0], i, any ? equal : all ? lanes : 0);
        if (op.r[1] != kNoSlot) SetPredicate(regs, op.r[1], bit, all);
        break;
      }
      case WarpSyncKind::kElect: {
        const int elected = __builtin_ctz(lanes);
        if (op.r[0] != kNoSlot) {
          SetLane<uint32_t>(regs, op.r[0], i, static_cast<uint32_t>(elected));
        }
        SetPredicate(regs, op.r[1], bit, i == elected);
        break;
      }
      case WarpSyncKind::kMoveTile:
        SetLane<uint32_t>(regs, op.r[0], i, TransposedPair(values, i));
        break;
      default:
        SetLane<uint32_t>(regs, op.r[0], i, reduced);
        break;
    }
  }
}

}  // namespace warpline::cpu
