// The part of FunctionRewriter that rewrites what the lanes of a warp execute together.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "guard/records.h"
#include "guard/rewrite/barriers.h"
#include "guard/rewrite/families.h"
#include "guard/rewrite/function_rewriter.h"
#include "guard/rewrite/limits.h"
#include "guard/rewrite/runtime.h"
#include "guard/rewrite/statements.h"
#include "ptx/types.h"

namespace warpline::guard {
namespace {

using ptx::Description;
using ptx::Family;
using ptx::Instruction;
using ptx::Operand;

}  // namespace

const ptx::Statement* FunctionRewriter::FindOfWholeWarp(const ptx::Statement* from) const {
  const ptx::Statement* const end = function_.code.data() + function_.code.size();
  for (; from != end && !std::holds_alternative<ptx::Label>(from->node); ++from) {
    const auto* const instruction = std::get_if<Instruction>(&from->node);
    if (instruction == nullptr) continue;
    Description what;
    if (ptx::Describe(*instruction, &what) != ptx::Verdict::kKnown) return nullptr;
    if (NeedsWholeWarp(what.row().family, at_barriers_) && instruction->guard.empty()) return from;
    if (EndsRun(*instruction, what)) return nullptr;
  }
  return nullptr;
}

bool FunctionRewriter::CountsWhoLeaves(const Instruction& instruction, Family family) const {
  return counts_lanes_ && function_.source->is_entry && family == Family::kExit &&
         !instruction.guard.empty();
}

const ptx::Statement* FunctionRewriter::FindFirstLeave() const {
  for (const ptx::Statement& statement : function_.code) {
    if (std::holds_alternative<ptx::Label>(statement.node)) return nullptr;
    const auto* const instruction = std::get_if<Instruction>(&statement.node);
    if (instruction == nullptr) continue;
    Description what;
    if (ptx::Describe(*instruction, &what) != ptx::Verdict::kKnown) return nullptr;
    if (CountsWhoLeaves(*instruction, what.row().family)) return &statement;
    if (EndsRun(*instruction, what) || MaySeparate(*instruction, what)) return nullptr;
  }
  return nullptr;
}

void FunctionRewriter::NeedWholeWarp(const ptx::Statement& needs) {
  if (std::exchange(is_whole_, true)) {
    if (is_joined_) convergence_.NoteUse();
    return;
  }
  is_joined_ = false;
  leaves_lines_ = true;
  const std::string_view at = code_.Arena(code_.Records(), sizeof(uint32_t));
  Put(Make("bar.warp.sync", {Number(-1)}));
  code_.TestWholeWarp(counts_lanes_);
  Instruction leave = Make("st.global.b32", {Address(at, kPartedLineOffset),
                                             Number(static_cast<int64_t>(needs.line.number))});
  leave.guard = "wlg_ps";
  Put(std::move(leave));
  Instruction end = Make("exit", {});
  end.guard = "wlg_ps";
  Put(std::move(end));
}

void FunctionRewriter::NameByLiterals(const Description& what, Instruction* instruction) const {
  switch (what.row().family) {
    case Family::kBlockBarrier:
      NumberBarrier(what, known_numbers_, instruction);
      break;
    case Family::kWarpBarrier:
    case Family::kShuffle:
    case Family::kVote:
    case Family::kMatch:
    case Family::kReduce: {
      Operand& mask = instruction->operands.back();
      const auto known =
          mask.kind == Operand::Kind::kName ? known_numbers_.OnlyOf(mask.name) : std::nullopt;
      if (Has(*instruction, "sync") && known.has_value()) {
        mask = Number(static_cast<int64_t>(*known));
      }
      break;
    }
    default:
      break;
  }
}

absl::Status FunctionRewriter::RewriteBlockBarrier(const Description& what, Instruction barrier) {
  // That a warp comes as one is the tenant's word.
  if (barrier.opcode == "bar") barrier.opcode = "barrier";
  std::erase(barrier.modifiers, "aligned");
  for (const Operand& operand : barrier.operands) {
    if (absl::Status status = CheckOperand(operand); !status.ok()) return status;
  }
  if (module_.options->hardened) {
    const auto [number, count] = NumbersOf(what, &barrier);
    if (!IsBarrierNumber(*number)) {
      return Refuse("a barrier whose number is not a literal from 0 to 15");
    }
    if (count != nullptr && !AreThreadsOfABarrier(*count)) {
      return Refuse("a barrier for threads that are not a literal multiple of 32 up to 1024");
    }
  }
  Put(std::move(barrier));
  return absl::OkStatus();
}

// An instruction of a warp with a predicate, which becomes a branch.
absl::Status FunctionRewriter::RewriteSkipped(Instruction instruction) {
  const std::string after = NewLabel("skip");
  Instruction skip = Make("bra", {Name(after)});
  skip.guard = std::exchange(instruction.guard, "");
  skip.guard_negated = !std::exchange(instruction.guard_negated, false);
  Put(std::move(skip));
  is_whole_ = false;
  if (absl::Status status = RewriteInstruction(std::move(instruction)); !status.ok()) return status;
  Place(after);
  return absl::OkStatus();
}

// ptxas keeps who is elected in a register that a warp has once, but any lanes may elect one of
// them. So the first of them is, without the instruction.
absl::Status FunctionRewriter::RewriteElect(const Instruction& elect) {
  for (const Operand& operand : elect.operands) {
    if (absl::Status status = CheckOperand(operand); !status.ok()) return status;
  }
  const Operand& result = elect.operands[0];
  if (result.kind != Operand::Kind::kPair || result.elements.size() != 2) {
    return Refuse("an election that tells nobody");
  }
  const std::string members = absl::StrCat(std::string(kRuntimePrefix), "members");
  const std::string first = absl::StrCat(std::string(kRuntimePrefix), "first");
  scratch_.insert({members, first});
  const auto put = [this, &elect](Instruction instruction) {
    instruction.guard = elect.guard;
    instruction.guard_negated = elect.guard_negated;
    Put(std::move(instruction));
  };
  Put(Make("mov.b32", {Name(members), elect.operands[1]}));
  Put(Make("brev.b32", {Name(first), Name(members)}));
  Put(Make("clz.b32", {Name(first), Name(first)}));
  put(Make("bar.warp.sync", {Name(members)}));
  if (result.elements[0].name != "_") put(Make("mov.b32", {result.elements[0], Name(first)}));
  Put(Make("mov.u32", {Name(members), Name("%laneid")}));
  put(Make("setp.eq.u32", {result.elements[1], Name(first), Name(members)}));
  return absl::OkStatus();
}

// Its rows lie a stride apart, so that one in generic space could leave the window of its base. One
// that names no space lies in shared memory here.
absl::Status FunctionRewriter::RewriteMatrixAccess(Instruction instruction) {
  for (const Operand& operand : instruction.operands) {
    if (operand.kind == Operand::Kind::kAddress) {
      const Symbol* const symbol = function_.Find(operand.name);
      if (symbol == nullptr || symbol->kind != Symbol::Kind::kRegister ||
          !operand.elements.empty()) {
        return Refuse("a matrix at an address that is not in a register");
      }
    } else if (absl::Status status = CheckOperand(operand); !status.ok()) {
      return status;
    }
  }
  const size_t at = instruction.opcode == "wmma" && Has(instruction, "load") ? 1 : 0;
  Operand& address = instruction.operands[at];
  const bool is_wide = ptx::TypeBytes(function_.Find(address.name)->type) == 8;
  const std::string x = address.name;
  const int64_t offset = address.offset;
  const bool is_shared = Has(instruction, "shared") || Has(instruction, "shared::cta");
  const bool is_global = Has(instruction, "global");
  // Its rows would have to be aligned, and to end within shared memory.
  if (module_.options->hardened) return Refuse("a matrix at a stride");
  if (instruction.operands.size() > 2) {
    Operand& stride = instruction.operands[2];
    if (stride.kind != Operand::Kind::kInteger || stride.value > kMostStride) {
      stride = Name(code_.Bounded(stride, kMostStride));
    }
  }
  if (is_shared) {
    Put(std::move(instruction));
    return absl::OkStatus();
  }
  if (!is_wide) return Refuse("an address of 32 bits");
  const std::string_view base = offset == 0 ? std::string_view(x) : code_.Sum(x, offset);
  address = Address(is_global ? code_.Arena(base, 1) : code_.InShared(base));
  // wmma.load.a.sync.aligned.row.m16n16k16[.space].type
  if (!is_global) instruction.modifiers.insert(instruction.modifiers.end() - 1, "shared");
  Put(std::move(instruction));
  return absl::OkStatus();
}

// A matrix in generic space: two ways, of which one leads to each space.
absl::Status FunctionRewriter::RewriteGenericMatrix(const Instruction& instruction) {
  const size_t at = instruction.opcode == "wmma" && Has(instruction, "load") ? 1 : 0;
  const Operand& address = instruction.operands[at];
  const Symbol* const symbol = function_.Find(address.name);
  const bool is_wide_register = symbol != nullptr && symbol->kind == Symbol::Kind::kRegister &&
                                ptx::TypeBytes(symbol->type) == 8;
  if (module_.options->hardened || !is_wide_register || !address.elements.empty()) {
    return RewriteMatrixAccess(instruction);  // Which says why not
  }
  const std::string in_shared = NewLabel("skip");
  const std::string after = NewLabel("skip");
  const std::string_view base = address.offset == 0 ? std::string_view(address.name)
                                                    : code_.Sum(address.name, address.offset);
  code_.TestShared(base);
  Instruction choose = Make("bra", {Name(in_shared)});
  choose.guard = "wlg_ps";
  Put(std::move(choose));
  is_whole_ = false;
  Instruction global = instruction;
  global.modifiers.insert(global.modifiers.end() - 1, "global");
  NeedWholeWarp(*at_);
  if (absl::Status status = RewriteMatrixAccess(std::move(global)); !status.ok()) return status;
  Put(Make("bra", {Name(after)}));
  Place(in_shared);
  NeedWholeWarp(*at_);
  if (absl::Status status = RewriteMatrixAccess(instruction); !status.ok()) return status;
  Place(after);
  return absl::OkStatus();
}

}  // namespace warpline::guard
