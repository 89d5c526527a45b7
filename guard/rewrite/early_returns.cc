#include "guard/rewrite/early_returns.h"

#include <string>
#include <unordered_set>
#include <variant>

#include "ptx/ast.h"

namespace warpline::guard {
namespace {

using ptx::Instruction;

bool Ends(const Instruction& instruction) {
  return instruction.opcode == "ret" || instruction.opcode == "exit";
}

// The labels behind which threads end.
std::unordered_set<std::string> LabelsOfEnds(const FlatFunction& kernel) {
  std::unordered_set<std::string> labels;
  bool ends = true;  // The end of the body is one.
  for (auto at = kernel.code.rbegin(); at != kernel.code.rend(); ++at) {
    if (const auto* const label = std::get_if<ptx::Label>(&at->node)) {
      if (ends) labels.insert(label->name);
    } else if (const auto* const instruction = std::get_if<Instruction>(&at->node)) {
      ends = instruction->guard.empty() && Ends(*instruction);
    }
  }
  return labels;
}

}  // namespace

void EndAtOnce(FlatFunction* kernel) {
  const std::unordered_set<std::string> ends = LabelsOfEnds(*kernel);
  for (ptx::Statement& statement : kernel->code) {
    auto* const instruction = std::get_if<Instruction>(&statement.node);
    if (instruction == nullptr || instruction->guard.empty()) continue;
    const bool branches = instruction->opcode == "bra" && instruction->operands.size() == 1 &&
                          ends.contains(instruction->operands[0].name);
    if (!branches && instruction->opcode != "ret") continue;
    instruction->opcode = "exit";
    instruction->modifiers.clear();
    instruction->operands.clear();
  }
}

}  // namespace warpline::guard
