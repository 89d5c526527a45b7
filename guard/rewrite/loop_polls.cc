#include "guard/rewrite/loop_polls.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <variant>

#include "guard/rewrite/limits.h"
#include "guard/rewrite/statements.h"
#include "guard/rewrite/weights.h"
#include "guard/rewrite/words.h"

namespace warpline::guard {
namespace {

using ptx::Instruction;

// Enough that a poll, which waits for the L2 cache, is not seen in the time of the loop.
constexpr int64_t kMostIterations = 65535;

std::string CalleeOf(const Instruction& call) {
  for (const ptx::Operand& operand : call.operands) {
    if (operand.kind == ptx::Operand::Kind::kName) return operand.name;
  }
  return "";
}

bool SetsIterations(const Instruction& instruction) {
  return instruction.opcode == "mov" && instruction.operands[0].name == "wlg_n";
}

}  // namespace

std::unordered_set<std::string> LoopsOf(const std::vector<ptx::Statement>& code) {
  std::unordered_set<std::string> passed, loops;
  for (const ptx::Statement& statement : code) {
    if (const auto* const label = std::get_if<ptx::Label>(&statement.node)) {
      passed.insert(label->name);
    } else if (const auto* const branch = std::get_if<Instruction>(&statement.node);
               branch != nullptr && branch->opcode == "bra" && !branch->operands.empty() &&
               passed.contains(branch->operands[0].name)) {
      loops.insert(branch->operands[0].name);
    }
  }
  return loops;
}

void BeginLoop(const std::string& label, const std::string& again, ptx::SourceLine line,
               FenceWriter* code) {
  code->Add(ptx::Statement{ptx::Label{again}, line});
  code->BeginIterations();
  code->Add(ptx::Statement{ptx::Label{label}, line});
  code->CountIteration();
}

void AddLoopBranch(const Instruction& branch, const std::string& again, const std::string& after,
                   FenceWriter* code) {
  code->TestIterations(branch.guard, branch.guard_negated);
  Instruction next = branch;
  next.guard = "wlg_pl";
  next.guard_negated = false;
  code->Add(std::move(next));
  if (!branch.guard.empty()) {
    Instruction leave = Make("bra", {Name(after)});
    leave.guard = branch.guard;
    leave.guard_negated = !branch.guard_negated;
    code->Add(std::move(leave));
  }
  code->Poll(kMostIterations);
  code->Add(Make("bra", {Name(again)}));
}

std::vector<std::string> SetPollPeriods(const std::vector<std::string>& order,
                                        std::map<std::string, ptx::Function>* functions) {
  std::vector<std::string> too_long;
  // Instructions by function, with those of whom it calls; at most one more than there may be.
  std::unordered_map<std::string, int64_t> lengths;
  for (auto name = order.rbegin(); name != order.rend(); ++name) {
    const auto found = functions->find(*name);
    if (found == functions->end()) continue;
    ptx::Function& function = found->second;
    int64_t length = 0;
    for (const ptx::Statement& statement : function.body) {
      const auto* const instruction = std::get_if<Instruction>(&statement.node);
      if (instruction == nullptr) continue;
      length += WeightOf(*instruction);
      if (instruction->opcode == "call") length += lengths[CalleeOf(*instruction)];
      length = std::min(length, kMostBetweenPolls + 1);
    }
    lengths[*name] = length;
    if (length > kMostBetweenPolls) {
      too_long.push_back(*name);
      continue;
    }
    const int64_t iterations =
        std::min(kMostIterations, kMostBetweenPolls / std::max<int64_t>(length, 1));
    // Whoever is called may be called from a loop, and asks soon.
    bool is_first = !function.is_entry;
    for (ptx::Statement& statement : function.body) {
      auto* const instruction = std::get_if<Instruction>(&statement.node);
      if (instruction == nullptr || !SetsIterations(*instruction)) continue;
      instruction->operands[1] = Number(std::exchange(is_first, false) ? 1 : iterations);
    }
  }
  return too_long;
}

}  // namespace warpline::guard
