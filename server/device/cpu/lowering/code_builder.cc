#include "server/device/cpu/lowering/code_builder.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "server/device/cpu/lowering/operand_code.h"

namespace warpline::cpu {

bool CodeBuilder::Invalid(std::string_view text) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("line ", line_, ": ", std::string(text.substr(0, 300))));
  }
  return false;
}

bool CodeBuilder::Unsupported(std::string_view text) {
  if (status_.ok()) {
    status_ = absl::UnimplementedError(
        absl::StrCat(std::string(text.substr(0, 300)), " at line ", line_));
  }
  return false;
}

void CodeBuilder::SetGuard(uint32_t slot, bool negated) {
  guard_ = slot;
  guard_negated_ = negated;
}

uint32_t CodeBuilder::NewSlot(Width width) {
  if (width != Width::kPred) {
    const uint32_t slot = frame_bytes_;
    frame_bytes_ += SlotBytes(width);
    return slot;
  }
  // Sixteen predicates share a line of 64 bytes.
  if (predicate_line_ == kNoSlot || predicates_in_line_ == 16) {
    predicate_line_ = frame_bytes_;
    predicates_in_line_ = 0;
    frame_bytes_ += 64;
  }
  return predicate_line_ + 4 * predicates_in_line_++;
}

uint32_t CodeBuilder::Constant(Width width, uint64_t bits) {
  if (width == Width::k16) bits &= 0xffff;
  if (width == Width::k32) bits &= 0xffffffff;
  const auto key = std::make_pair(width, bits);
  const auto it = constant_slots_.find(key);
  if (it != constant_slots_.end()) return it->second;
  const uint32_t slot = NewSlot(width);
  constant_slots_[key] = slot;
  constants_.push_back({slot, width, bits});
  return slot;
}

uint32_t CodeBuilder::SpecialSlot(Special special, Width width) {
  const bool changes = special >= Special::kClock && special <= Special::kGlobaltimerHi;
  if (changes) {
    const uint32_t slot = NewSlot(width);
    Op& op = Emit(OpKind::kSpecial);
    op.special = special;
    op.r[0] = slot;
    return slot;
  }
  const auto it = special_slots_.find(special);
  if (it != special_slots_.end()) return it->second;
  const uint32_t slot = NewSlot(width);
  special_slots_[special] = slot;
  specials_.emplace_back(special, slot);
  return slot;
}

uint32_t CodeBuilder::CarrySlot() {
  if (carry_ == kNoSlot) carry_ = NewSlot(Width::kPred);
  return carry_;
}

Op& CodeBuilder::Emit(OpKind kind) {
  Op& op = ops_.emplace_back();
  op.kind = kind;
  op.line = line_;
  op.guard = guard_;
  op.guard_negated = guard_negated_;
  return op;
}

Op& CodeBuilder::EmitAlu(const AluRow& row) {
  Op& op = Emit(OpKind::kAlu);
  op.alu = row.fn;
  return op;
}

Op& CodeBuilder::EmitHandler(MemoryFn fn) {
  Op& op = Emit(OpKind::kAtomic);
  op.memory = fn;
  return op;
}

void CodeBuilder::EmitPrepared(Op op) {
  op.line = line_;
  op.guard = guard_;
  op.guard_negated = guard_negated_;
  ops_.push_back(op);
}

bool CodeBuilder::EmitNamed(std::string_view mnemonic, uint32_t d, uint32_t a, uint32_t b,
                            uint32_t c) {
  const AluRow* const row = FindAlu(mnemonic);
  if (row == nullptr) return Unsupported(mnemonic);
  Op& op = EmitAlu(*row);
  op.r[0] = d;
  op.r[1] = a;
  op.r[2] = b;
  op.r[3] = c;
  return true;
}

void CodeBuilder::MeetWholeWarp() {
  const uint32_t members = Constant(Width::k32, kAllLanes);
  Op& meet = Emit(OpKind::kWarpSync);
  meet.warp_sync = WarpSyncKind::kBarrier;
  meet.r[5] = members;
}

}  // namespace warpline::cpu
