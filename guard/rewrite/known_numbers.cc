#include "guard/rewrite/known_numbers.h"

#include <algorithm>
#include <cstddef>
#include <variant>
#include <vector>

#include "ptx/ast.h"
#include "ptx/instruction_set.h"

namespace warpline::guard {
namespace {

using ptx::Instruction;
using ptx::Operand;

constexpr size_t kMostWritten = 8;    // To one register
constexpr size_t kMostFollowed = 16;  // Registers, from the one that is asked for

// How many operands, from 1 on, an instruction picks what it writes from; 0 for others.
size_t CountPicked(const Instruction& instruction) {
  const size_t count = instruction.opcode == "mov" ? 1 : instruction.opcode == "selp" ? 2 : 0;
  if (instruction.operands.size() <= count) return 0;
  const auto first = instruction.operands.begin() + 1;
  const bool are_plain =
      std::all_of(first, first + static_cast<ptrdiff_t>(count), [](const Operand& operand) {
        return operand.kind == Operand::Kind::kInteger ||
               (operand.kind == Operand::Kind::kName && operand.component.empty() &&
                operand.offset == 0);
      });
  return are_plain ? count : 0;
}

}  // namespace

KnownNumbers::KnownNumbers(const FlatFunction& function) {
  for (const ptx::Statement& statement : function.code) {
    const auto* const instruction = std::get_if<Instruction>(&statement.node);
    if (instruction == nullptr) continue;
    ptx::Description what;
    const bool is_known = ptx::Describe(*instruction, &what) == ptx::Verdict::kKnown;
    const size_t picked = is_known ? CountPicked(*instruction) : 0;
    for (size_t i = 0; i < instruction->operands.size(); ++i) {
      const Operand& operand = instruction->operands[i];
      if (is_known && what.roles()[i] != ptx::Role::kDestination) continue;
      for (const Operand& element : operand.elements) registers_[element.name].is_known = false;
      if (operand.name.empty()) continue;
      Written& written = registers_[operand.name];
      written.is_known = written.is_known && picked > 0 &&
                         written.numbers.size() + written.registers.size() < kMostWritten;
      for (size_t k = 1; k <= picked && written.is_known; ++k) {
        const Operand& source = instruction->operands[k];
        if (source.kind == Operand::Kind::kInteger) {
          written.numbers.insert(source.value);
        } else {
          written.registers.insert(source.name);
        }
      }
    }
  }
}

bool KnownNumbers::IsAllOrNothing(const std::string& name, uint64_t bytes) const {
  std::unordered_set<std::string> followed = {name};
  std::vector<const std::string*> open = {&name};
  while (!open.empty()) {
    const auto found = registers_.find(*open.back());
    open.pop_back();
    if (found == registers_.end() || !found->second.is_known) return false;
    const Written& written = found->second;
    for (const uint64_t number : written.numbers) {
      if (number != 0 && number != bytes) return false;
    }
    for (const std::string& source : written.registers) {
      if (!followed.insert(source).second) continue;
      if (followed.size() > kMostFollowed) return false;
      open.push_back(&source);
    }
  }
  return true;
}

std::optional<uint64_t> KnownNumbers::OnlyOf(const std::string& name) const {
  const auto found = registers_.find(name);
  if (found == registers_.end() || !found->second.is_known || !found->second.registers.empty() ||
      found->second.numbers.size() != 1) {
    return std::nullopt;
  }
  return *found->second.numbers.begin();
}

}  // namespace warpline::guard
