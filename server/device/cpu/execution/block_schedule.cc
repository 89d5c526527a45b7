// Decides which warp, and which of its groups, runs, and for how long.
#include <algorithm>

#include "server/device/cpu/execution/block.h"

namespace warpline::cpu {
namespace {

// The number of instructions, roughly, before another warp has its turn.
constexpr int64_t kWarpTurn = 20000;

bool CanMerge(const Group& a, const Group& b) {
  return a.pc == b.pc && a.depth == b.depth && a.frame == b.frame &&
         a.local_frame == b.local_frame && a.state == GroupState::kReady &&
         b.state == GroupState::kReady;
}

// Deeper calls run first, so that they return to where others wait; then the lower instruction.
bool RunsBefore(const Group& a, const Group& b) {
  return a.depth != b.depth ? a.depth > b.depth : a.pc < b.pc;
}

}  // namespace

Block::Outcome Block::Run() {
  bool ran = false;
  for (Warp& warp : warps_) {
    if (warp.alive == 0 || !HasReady(warp)) continue;
    ran = true;
    if (!RunWarp(warp)) return Outcome::kFault;
  }
  if (live_warps_ == 0) return Outcome::kDone;
  if (!ran) {
    Deadlock();
    return Outcome::kFault;
  }
  return Outcome::kMoreToDo;
}

bool Block::HasReady(const Warp& warp) const {
  for (uint32_t i = 0; i < warp.waiting_count; ++i) {
    if (warp.waiting[i].state == GroupState::kReady) return true;
  }
  return false;
}

void Block::Deadlock() {
  // Hardware would hang here until the launch times out.
  for (const Warp& warp : warps_) {
    if (warp.waiting_count == 0) continue;
    Fault(CudaResult::kLaunchTimeout, code_.ops[warp.waiting[0].pc],
          "threads wait for each other forever");
    return;
  }
}

bool Block::RunWarp(Warp& warp) {
  int64_t budget = kWarpTurn;
  while (budget > 0 && SelectGroup(warp)) {
    const bool ok = Execute(warp, &budget);
    if (warp.current.mask != 0) Park(warp, warp.current);
    warp.current.mask = 0;
    if (!ok) return false;
  }
  return WarpSettled(warp);
}

bool Block::SelectGroup(Warp& warp) {
  for (int pass = 0; pass < 2; ++pass) {
    uint32_t best = kLanes;
    for (uint32_t i = 0; i < warp.waiting_count; ++i) {
      const Group& group = warp.waiting[i];
      if (group.state != GroupState::kReady || group.yielded) continue;
      if (best == kLanes || RunsBefore(group, warp.waiting[best])) best = i;
    }
    if (best != kLanes) {
      warp.current = warp.waiting[best];
      warp.waiting[best] = warp.waiting[--warp.waiting_count];
      return true;
    }
    // All groups that can run have yielded, so a new round begins.
    for (uint32_t i = 0; i < warp.waiting_count; ++i) warp.waiting[i].yielded = false;
  }
  return false;
}

void Block::Park(Warp& warp, const Group& group) {
  for (uint32_t i = 0; i < warp.waiting_count; ++i) {
    if (!CanMerge(warp.waiting[i], group)) continue;
    warp.waiting[i].mask |= group.mask;
    warp.waiting[i].yielded = warp.waiting[i].yielded && group.yielded;
    return;
  }
  // Groups are disjoint and not empty, so there is room for every lane.
  warp.waiting[warp.waiting_count++] = group;
}

uint32_t Block::NextJoin(const Warp& warp) const {
  const Group& current = warp.current;
  uint32_t join = UINT32_MAX;
  for (uint32_t i = 0; i < warp.waiting_count; ++i) {
    const Group& group = warp.waiting[i];
    if (group.state == GroupState::kReady && group.depth == current.depth &&
        group.frame == current.frame && group.local_frame == current.local_frame &&
        group.pc >= current.pc) {
      join = std::min(join, group.pc);
    }
  }
  return join;
}

void Block::ParkRest(Warp& warp, uint32_t taken) {
  Group rest = warp.current;
  rest.mask &= ~taken;
  rest.pc = warp.current.pc + 1;
  if (rest.mask != 0) Park(warp, rest);
  warp.current.mask &= taken;
}

void Block::ExitLanes(Warp& warp, uint32_t mask) {
  warp.alive &= ~mask;
  warp.current.mask &= ~mask;
  if (warp.alive == 0) {
    --live_warps_;
    for (uint32_t id = 0; id < barriers_.size(); ++id) CheckBarrier(id);
  } else {
    ResolveWarpSync(warp);
  }
}

}  // namespace warpline::cpu
