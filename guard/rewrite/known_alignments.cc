#include "guard/rewrite/known_alignments.h"

#include <algorithm>

#include "guard/rewrite/families.h"

namespace warpline::guard {
namespace {

using ptx::Operand;

uint64_t OfNumber(uint64_t value) {
  return value == 0 ? kMostKnownAlignment : std::min(value & -value, kMostKnownAlignment);
}

}  // namespace

uint64_t KnownAlignments::OfSum(uint64_t alignment, int64_t offset) {
  return std::min(alignment, OfNumber(static_cast<uint64_t>(offset)));
}

uint64_t KnownAlignments::Of(const std::string& name) const {
  const auto found = known_.find(name);
  return found == known_.end() ? 1 : found->second;
}

uint64_t KnownAlignments::Of(const Operand& operand) const {
  if (operand.kind == Operand::Kind::kInteger) return OfNumber(operand.value);
  if (operand.kind != Operand::Kind::kName || !operand.component.empty()) return 1;
  const uint64_t of_variable = of_variable_(operand.name);
  if (of_variable == 0) return operand.offset == 0 ? Of(operand.name) : 1;
  return OfSum(std::min(of_variable, kMostKnownAlignment), operand.offset);
}

uint64_t KnownAlignments::OfResult(const ptx::Instruction& instruction) const {
  const auto& operands = instruction.operands;
  const std::string& opcode = instruction.opcode;
  const bool is_number = operands.size() > 2 && operands[2].kind == Operand::Kind::kInteger;
  if (opcode == "mov") return Of(operands[1]);
  if (opcode == "shl") {
    if (!is_number) return 1;  // As the verifier reads it
    return operands[2].value >= 4
               ? kMostKnownAlignment
               : std::min(Of(operands[1]) << operands[2].value, kMostKnownAlignment);
  }
  if (opcode == "and") return std::max(Of(operands[1]), Of(operands[2]));
  if (opcode == "add" || opcode == "sub" || opcode == "or" || opcode == "xor") {
    return std::min(Of(operands[1]), Of(operands[2]));
  }
  return 1;
}

void KnownAlignments::Follow(const ptx::Instruction& instruction, const ptx::Description& what) {
  const auto& operands = instruction.operands;
  const bool is_plain = instruction.modifiers.size() == 1 && instruction.guard.empty() &&
                        IsInteger32(instruction.modifiers[0]) && !operands.empty() &&
                        operands[0].kind == Operand::Kind::kName;
  const uint64_t alignment = is_plain ? OfResult(instruction) : 1;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (what.roles()[i] == ptx::Role::kDestination) ForgetWritten(operands[i]);
  }
  if (alignment > 1) known_[operands[0].name] = alignment;
}

void KnownAlignments::ForgetWritten(const Operand& operand) {
  known_.erase(operand.name);
  for (const Operand& element : operand.elements) ForgetWritten(element);
}

}  // namespace warpline::guard
