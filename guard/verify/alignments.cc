#include "guard/verify/alignments.h"

#include <algorithm>

namespace warpline::guard {

int64_t Alignments::OfNumber(int64_t number) {
  int64_t alignment = 1;
  while (alignment < kSharedPiece && number % (alignment * 2) == 0) alignment *= 2;
  return alignment;
}

int64_t Alignments::Of(std::string_view name, int64_t offset) const {
  const Name* const found = scope_.Find(name);
  int64_t alignment = 1;
  if (found != nullptr && found->kind == Name::Kind::kShared) {
    alignment = OfNumber(found->alignment);
  } else if (const auto known = known_.find(name); known != known_.end()) {
    alignment = known->second;
  }
  return std::min(alignment, OfNumber(offset));
}

int64_t Alignments::Of(const Operand& operand) const {
  if (operand.kind == Operand::Kind::kInteger) return OfNumber(operand.value);
  if (operand.kind != Operand::Kind::kName || operand.negated || !operand.component.empty()) {
    return 1;
  }
  return Of(operand.name, operand.value);
}

// Only of what has just one modifier, which is a type of 32 bits: so nothing saturates or carries.
int64_t Alignments::OfResult(const Instruction& instruction) const {
  const auto& operands = instruction.operands;
  if (instruction.has_predicate || instruction.modifiers.size() != 1 ||
      !IsInteger32(instruction.modifiers[0])) {
    return 1;
  }
  if (instruction.opcode == "mov" && operands.size() == 2) return Of(operands[1]);
  if (operands.size() != 3) return 1;
  const int64_t first = Of(operands[1]), second = Of(operands[2]);
  if (instruction.opcode == "and") return std::max(first, second);
  if (instruction.opcode == "add" || instruction.opcode == "sub" || instruction.opcode == "or" ||
      instruction.opcode == "xor") {
    return std::min(first, second);
  }
  if (instruction.opcode == "shl" && operands[2].kind == Operand::Kind::kInteger) {
    int64_t alignment = first;
    for (int64_t i = 0; i < operands[2].value && alignment < kSharedPiece; ++i) alignment *= 2;
    return alignment;
  }
  return 1;
}

void Alignments::Follow(const Instruction& instruction) {
  if (instruction.operands.empty()) return;
  const Operand& target = instruction.operands[0];
  const bool is_register = target.kind == Operand::Kind::kName;
  const int64_t alignment = is_register ? OfResult(instruction) : 1;
  for (const Operand& element : instruction.ElementsOf(target)) known_.erase(element.name);
  if (!is_register) return;
  if (alignment > 1) {
    known_[target.name] = alignment;
  } else {
    known_.erase(target.name);
  }
}

}  // namespace warpline::guard
