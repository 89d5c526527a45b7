#include "server/device/cpu/lowering/sync_lowering.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warpline::cpu {
namespace {

struct Name {
  std::string_view text;
  WarpSyncKind kind;
};
constexpr Name kShuffles[] = {
    {"up", WarpSyncKind::kShflUp},
    {"down", WarpSyncKind::kShflDown},
    {"bfly", WarpSyncKind::kShflBfly},
    {"idx", WarpSyncKind::kShflIdx},
};
constexpr Name kVotes[] = {
    {"all", WarpSyncKind::kVoteAll},
    {"any", WarpSyncKind::kVoteAny},
    {"uni", WarpSyncKind::kVoteUni},
    {"ballot", WarpSyncKind::kVoteBallot},
};
constexpr Name kReductions[] = {
    {"add.u32", WarpSyncKind::kReduxAdd},  {"add.s32", WarpSyncKind::kReduxAdd},
    {"min.u32", WarpSyncKind::kReduxMinU}, {"min.s32", WarpSyncKind::kReduxMinS},
    {"max.u32", WarpSyncKind::kReduxMaxU}, {"max.s32", WarpSyncKind::kReduxMaxS},
    {"and.b32", WarpSyncKind::kReduxAnd},  {"or.b32", WarpSyncKind::kReduxOr},
    {"xor.b32", WarpSyncKind::kReduxXor},
};

template <size_t kCount>
const Name* FindName(const Name (&names)[kCount], std::string_view text) {
  for (const Name& name : names) {
    if (name.text == text) return &name;
  }
  return nullptr;
}

}  // namespace

bool SyncLowering::WarpBarrier(const Instruction& in) {
  uint32_t members;
  if (!Source(in.operands[0], 'i', &members)) return false;
  Op& op = Emit(OpKind::kWarpSync);
  op.warp_sync = WarpSyncKind::kBarrier;
  op.r[5] = members;
  return true;
}

bool SyncLowering::BlockBarrier(const Instruction& in) {
  std::string operation;
  std::string reduction;
  for (const std::string& modifier : in.modifiers) {
    if (modifier == "cta" || modifier == "aligned" || modifier == "u32" || modifier == "pred") {
      continue;
    }
    if (modifier == "sync" || modifier == "arrive" || modifier == "red") {
      operation = modifier;
    } else if (modifier == "popc" || modifier == "and" || modifier == "or") {
      reduction = modifier;
    } else {
      return Unsupported(in);
    }
  }
  const size_t count = in.operands.size();
  const bool reduces = operation == "red";
  if (reduces != !reduction.empty()) return Unsupported(in);
  const size_t skip = reduces ? 1 : 0;
  const size_t last = reduces ? count - 1 : count;  // One past the thread count.
  uint32_t d = kNoSlot, id, threads = kNoSlot, p = kNoSlot;
  bool negated = false;
  if (!Source(in.operands[skip], 'i', &id)) return false;
  if (last == skip + 2 && !Source(in.operands[skip + 1], 'i', &threads)) return false;
  if (reduces) {
    if (!Source(in.operands[count - 1], 'p', &p, &negated)) return false;
    if (!Destination(in.operands[0], reduction == "popc" ? 'i' : 'p', &d)) return false;
  }
  Op& op = Emit(OpKind::kBarrier);
  op.barrier = operation == "sync"     ? BarrierKind::kSync
               : operation == "arrive" ? BarrierKind::kArrive
               : reduction == "popc"   ? BarrierKind::kPopc
               : reduction == "and"    ? BarrierKind::kAnd
                                       : BarrierKind::kOr;
  op.r[0] = d;
  op.r[1] = id;
  op.r[2] = threads;
  op.r[3] = p;
  op.negated = negated;
  return true;
}

bool SyncLowering::Shuffle(const Instruction& in) {
  const Name* const name = in.modifiers.size() == 3 && in.modifiers[0] == "sync"
                               ? FindName(kShuffles, in.modifiers[1])
                               : nullptr;
  if (name == nullptr || in.operands.size() != 5) return Unsupported(in);
  const Operand& first = in.operands[0];
  const bool pair = first.kind == Operand::Kind::kPair;
  uint32_t d, p = kNoSlot, a, b, c, members;
  if (!Source(in.operands[1], 'i', &a) || !Source(in.operands[2], 'i', &b) ||
      !Source(in.operands[3], 'i', &c) || !Source(in.operands[4], 'i', &members)) {
    return false;
  }
  if (!Destination(pair ? first.elements[0] : first, 'i', &d)) return false;
  if (pair && !Destination(first.elements[1], 'p', &p)) return false;
  Op& op = Emit(OpKind::kWarpSync);
  op.warp_sync = name->kind;
  op.r[0] = d;
  op.r[1] = p;
  op.r[2] = a;
  op.r[3] = b;
  op.r[4] = c;
  op.r[5] = members;
  return true;
}

bool SyncLowering::Vote(const Instruction& in) {
  // Both vote.sync.all and vote.all.sync are accepted.
  const Name* name = nullptr;
  if (in.modifiers.size() == 3 && in.modifiers[0] == "sync") {
    name = FindName(kVotes, in.modifiers[1]);
  } else if (in.modifiers.size() == 3 && in.modifiers[1] == "sync") {
    name = FindName(kVotes, in.modifiers[0]);
  }
  if (name == nullptr || in.operands.size() != 3) return Unsupported(in);
  uint32_t d, p, members;
  bool negated = false;
  if (!Source(in.operands[1], 'p', &p, &negated)) return false;
  if (!Source(in.operands[2], 'i', &members)) return false;
  const char code = name->kind == WarpSyncKind::kVoteBallot ? 'i' : 'p';
  if (!Destination(in.operands[0], code, &d)) return false;
  Op& op = Emit(OpKind::kWarpSync);
  op.warp_sync = name->kind;
  op.r[0] = d;
  op.r[2] = p;
  op.r[5] = members;
  op.negated = negated;
  return true;
}

bool SyncLowering::Match(const Instruction& in) {
  if (in.modifiers.size() != 3 || in.modifiers[1] != "sync") return Unsupported(in);
  const bool any = in.modifiers[0] == "any";
  const bool wide = in.modifiers[2] == "b64";
  if ((!any && in.modifiers[0] != "all") || (!wide && in.modifiers[2] != "b32")) {
    return Unsupported(in);
  }
  const Operand& first = in.operands[0];
  const bool pair = first.kind == Operand::Kind::kPair;
  uint32_t d, p = kNoSlot, a, members;
  if (!Source(in.operands[1], wide ? 'l' : 'i', &a)) return false;
  if (!Source(in.operands[2], 'i', &members)) return false;
  if (!Destination(pair ? first.elements[0] : first, 'i', &d)) return false;
  if (pair && !Destination(first.elements[1], 'p', &p)) return false;
  Op& op = Emit(OpKind::kWarpSync);
  op.warp_sync = any ? WarpSyncKind::kMatchAny : WarpSyncKind::kMatchAll;
  op.wide = wide;
  op.r[0] = d;
  op.r[1] = p;
  op.r[2] = a;
  op.r[5] = members;
  return true;
}

bool SyncLowering::Reduce(const Instruction& in) {
  const Name* const name = in.modifiers.size() == 3 && in.modifiers[0] == "sync"
                               ? FindName(kReductions, in.modifiers[1] + "." + in.modifiers[2])
                               : nullptr;
  if (name == nullptr) return Unsupported(in);
  uint32_t d, a, members;
  if (!Source(in.operands[1], 'i', &a) || !Source(in.operands[2], 'i', &members)) return false;
  if (!Destination(in.operands[0], 'i', &d)) return false;
  Op& op = Emit(OpKind::kWarpSync);
  op.warp_sync = name->kind;
  op.r[0] = d;
  op.r[2] = a;
  op.r[5] = members;
  return true;
}

bool SyncLowering::ActiveMask(const Instruction& in) {
  uint32_t d;
  if (!Destination(in.operands[0], 'i', &d)) return false;
  Emit(OpKind::kActiveMask).r[0] = d;
  return true;
}

bool SyncLowering::Elect(const Instruction& in) {
  const Operand& first = in.operands[0];
  if (in.modifiers != std::vector<std::string>{"sync"} || first.kind != Operand::Kind::kPair) {
    return Unsupported(in);
  }
  uint32_t d = kNoSlot, p, members;
  if (!Source(in.operands[1], 'i', &members)) return false;
  if (first.elements[0].name != "_" && !Destination(first.elements[0], 'i', &d)) return false;
  if (!Destination(first.elements[1], 'p', &p)) return false;
  Op& op = Emit(OpKind::kWarpSync);
  op.warp_sync = WarpSyncKind::kElect;
  op.r[0] = d;
  op.r[1] = p;
  op.r[5] = members;
  return true;
}

bool SyncLowering::MoveTile(const Instruction& in) {
  if (in.modifiers != std::vector<std::string>{"sync", "aligned", "m8n8", "trans", "b16"}) {
    return Unsupported(in);
  }
  uint32_t d, a;
  if (!Source(in.operands[1], 'i', &a) || !Destination(in.operands[0], 'i', &d)) return false;
  Op& op = Emit(OpKind::kWarpSync);
  op.warp_sync = WarpSyncKind::kMoveTile;
  op.r[0] = d;
  op.r[2] = a;
  op.r[5] = Constant(Width::k32, kAllLanes);
  return true;
}

}  // namespace warpline::cpu
