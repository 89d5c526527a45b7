// Short spellings for the statements that the guard adds.
#ifndef WARPLINE_GUARD_REWRITE_STATEMENTS_H_
#define WARPLINE_GUARD_REWRITE_STATEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ptx/ast.h"

namespace warpline::guard {

inline ptx::Operand Name(std::string_view name, int64_t offset = 0) {
  ptx::Operand operand;
  operand.name = std::string(name);
  operand.offset = offset;
  return operand;
}

inline ptx::Operand Number(int64_t value) {
  ptx::Operand operand;
  operand.kind = ptx::Operand::Kind::kInteger;
  operand.value = static_cast<uint64_t>(value);
  return operand;
}

inline ptx::Operand Address(std::string_view name, int64_t offset = 0) {
  ptx::Operand operand = Name(name, offset);
  operand.kind = ptx::Operand::Kind::kAddress;
  return operand;
}

inline ptx::Operand Halves(std::string_view low, std::string_view high) {
  ptx::Operand operand;
  operand.kind = ptx::Operand::Kind::kVector;
  operand.elements = {Name(low), Name(high)};
  return operand;
}

inline ptx::Operand Special(std::string_view name, std::string_view component) {
  ptx::Operand operand = Name(name);
  operand.component = component;
  return operand;
}

// `mnemonic` with its modifiers, such as "add.s64".
inline ptx::Instruction Make(std::string_view mnemonic, std::vector<ptx::Operand> operands) {
  ptx::Instruction instruction;
  size_t end = mnemonic.find('.');
  instruction.opcode = mnemonic.substr(0, end);
  while (end != std::string_view::npos) {
    mnemonic.remove_prefix(end + 1);
    end = mnemonic.find('.');
    instruction.modifiers.emplace_back(mnemonic.substr(0, end));
  }
  instruction.operands = std::move(operands);
  return instruction;
}

// Adds a statement that stands in no line of the tenant's.
inline void AddTo(std::vector<ptx::Statement>* body, std::string_view mnemonic,
                  std::vector<ptx::Operand> operands, std::string_view guard = {}) {
  ptx::Instruction instruction = Make(mnemonic, std::move(operands));
  instruction.guard = guard;
  body->push_back({std::move(instruction), {}});
}

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_STATEMENTS_H_
