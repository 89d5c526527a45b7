#include "server/device/cpu/lowering/arithmetic_lowering.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ptx/types.h"
#include "server/device/cpu/alu/alu.h"

namespace warpline::cpu {
namespace {

// Spells the instruction as the ALU table does.
std::string Mnemonic(const ptx::Instruction& in, const ptx::InstructionRow& row) {
  // For f16 and bf16, the approximations may flush or not.
  const bool half = !in.modifiers.empty() && in.modifiers.back().find("f16") != std::string::npos;
  std::string key = in.opcode;
  for (const std::string& modifier : in.modifiers) {
    if (row.rounds_to_nearest && modifier == "rn") continue;
    if (modifier == "ftz" && (in.opcode == "slct" || half)) continue;
    absl::StrAppend(&key, ".", modifier);
  }
  // mad of floats is fma, with every rounding.
  if (in.opcode == "mad" && !in.modifiers.empty() && ptx::IsFloatType(in.modifiers.back())) {
    key.replace(0, 3, "fma");
  }
  return key;
}

// Where the generic addresses of a state space start; 0 when they are the same as its own.
uint64_t WindowOf(ptx::StateSpace space) {
  switch (space) {
    case ptx::StateSpace::kShared:
    case ptx::StateSpace::kSharedCluster:
      return kSharedWindow;
    case ptx::StateSpace::kLocal:
      return kLocalWindow;
    case ptx::StateSpace::kParam:
      return kParamWindow;
    default:
      return 0;
  }
}

}  // namespace

bool ArithmeticLowering::Compute(const Instruction& in, const ptx::Description& what) {
  const AluRow* const row = FindAlu(Mnemonic(in, what.row()));
  if (row == nullptr) return Unsupported(in);
  const std::string_view codes = row->operands;
  uint32_t slots[6];
  size_t count = 1;
  bool negated = false;
  uint64_t immediate = 0;
  for (size_t i = 1; i < in.operands.size(); ++i) {
    const ptx::Role role = what.roles()[i];
    if (role == ptx::Role::kImmediate) {
      immediate = in.operands[i].value;
      continue;
    }
    if (count == codes.size()) return Invalid("wrong number of operands");
    bool* const flag = role == ptx::Role::kPredicate ? &negated : nullptr;
    if (!Source(in.operands[i], codes[count], &slots[count], flag)) return false;
    ++count;
  }
  if (count != codes.size()) return Invalid("wrong number of operands");
  if (!Destination(in.operands[0], codes[0], &slots[0])) return false;
  Op& op = EmitAlu(*row);
  for (size_t i = 0; i < count; ++i) op.r[i] = slots[i];
  op.negated = negated;
  op.imm = immediate;
  if (row->uses_carry) {
    op.r[5] = code_.CarrySlot();
  }
  return true;
}

bool ArithmeticLowering::Move(const Instruction& in) {
  if (in.modifiers.size() != 1) return Invalid("malformed mov");
  if (in.operands[0].kind == Operand::Kind::kVector) return MoveVector(in, false);
  if (in.operands[1].kind == Operand::Kind::kVector) return MoveVector(in, true);
  const AluRow* const row = FindAlu(absl::StrCat("mov.", in.modifiers[0]));
  if (row == nullptr) return Unsupported(in);
  uint32_t d, a;
  bool negated = false;
  if (!Source(in.operands[1], row->operands[1], &a, &negated)) return false;
  if (!Destination(in.operands[0], row->operands[0], &d)) return false;
  Op& op = EmitAlu(*row);
  op.r[0] = d;
  op.r[1] = a;
  op.negated = negated;
  return true;
}

// mov.b64 %rd, {%r1, %r2} and the reverse.
bool ArithmeticLowering::MoveVector(const Instruction& in, bool pack) {
  const std::vector<Operand>& parts = in.operands[pack ? 1 : 0].elements;
  const int bytes = ptx::TypeBytes(in.modifiers[0]);
  if ((bytes != 4 && bytes != 8) || (parts.size() != 2 && parts.size() != 4) ||
      (bytes == 4 && parts.size() == 4)) {
    return Unsupported(in);
  }
  const AluRow* const row = FindAlu(
      absl::StrCat(pack ? "pack" : "unpack", parts.size() == 4 ? "4" : "", ".b", bytes * 8));
  if (row == nullptr) return Unsupported(in);
  const char wide = bytes == 8 ? 'l' : 'i';
  const char narrow = parts.size() == 2 && bytes == 8 ? 'i' : 'h';
  uint32_t slots[5];
  uint32_t whole;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (pack ? !Source(parts[i], narrow, &slots[i]) : !Destination(parts[i], narrow, &slots[i])) {
      return false;
    }
  }
  if (pack ? !Destination(in.operands[0], wide, &whole) : !Source(in.operands[1], wide, &whole)) {
    return false;
  }
  Op& op = EmitAlu(*row);
  if (pack) op.r[0] = whole;
  for (size_t i = 0; i < parts.size(); ++i) op.r[i + (pack ? 1 : 0)] = slots[i];
  if (!pack) op.r[parts.size()] = whole;
  return true;
}

bool ArithmeticLowering::ConvertAddress(const Instruction& in) {
  if (in.modifiers.size() < 2 || in.modifiers.back() != "u64") return Unsupported(in);
  const bool to = in.modifiers[0] == "to";
  if (in.modifiers.size() != (to ? 3u : 2u)) return Invalid("malformed cvta");
  ptx::StateSpace space;
  if (!ptx::FindStateSpace(in.modifiers[to ? 1 : 0], &space)) return Unsupported(in);
  // A parameter of a .func lives in local memory.
  const bool is_local = space == ptx::StateSpace::kParam && !function_.is_entry;
  const uint64_t window = WindowOf(is_local ? ptx::StateSpace::kLocal : space);
  uint32_t d, a;
  if (!Source(in.operands[1], 'l', &a)) return false;
  if (!Destination(in.operands[0], 'l', &d)) return false;
  if (window == 0) return EmitNamed("mov.b64", d, a);
  return EmitNamed(to ? "sub.u64" : "add.u64", d, a, Constant(Width::k64, window));
}

bool ArithmeticLowering::TestSpace(const Instruction& in) {
  if (in.modifiers.size() != 1) return Invalid("malformed isspacep");
  ptx::StateSpace space;
  if (!ptx::FindStateSpace(in.modifiers[0], &space) || space == ptx::StateSpace::kConst) {
    return Unsupported(in);
  }
  uint32_t p, a;
  if (!Source(in.operands[1], 'l', &a)) return false;
  if (!Destination(in.operands[0], 'p', &p)) return false;
  if (space == ptx::StateSpace::kGlobal) return EmitNamed("below_windows", p, a);
  if (!EmitNamed("window", p, a)) return false;
  code_.ops().back().imm = WindowOf(space);
  return true;
}

bool ArithmeticLowering::CachePolicy(const Instruction& in) {
  uint32_t d;
  return Destination(in.operands[0], 'l', &d) && EmitNamed("mov.b64", d, Constant(Width::k64, 0));
}

}  // namespace warpline::cpu
