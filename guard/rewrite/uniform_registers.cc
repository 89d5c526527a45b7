#include "guard/rewrite/uniform_registers.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <variant>

#include "guard/rewrite/families.h"
#include "ptx/instruction_set.h"

namespace warpline::guard {
namespace {

using ptx::Description;
using ptx::Family;
using ptx::Instruction;
using ptx::Operand;

// Special registers that are the same for all threads of a block.
constexpr std::string_view kOfABlock[] = {
    "%ntid",
    "%ctaid",
    "%nctaid",
    "%nsmid",
    "%gridid",
    "%dynamic_smem_size",
    "%total_smem_size",
    "%aggr_smem_size",
};

bool IsSame(std::string_view special) {
  return std::find(std::begin(kOfABlock), std::end(kOfABlock), special) != std::end(kOfABlock);
}

// Whether what an instruction makes follows from its operands alone.
bool FollowsFromOperands(const Instruction& instruction, const Description& what, bool is_entry) {
  switch (what.row().family) {
    case Family::kArithmetic:
    case Family::kCompare:
    case Family::kSet:
    case Family::kConvert:
    case Family::kMove:
      // A carry is an operand that has no name.
      return instruction.opcode != "addc" && instruction.opcode != "subc" &&
             instruction.opcode != "madc";
    case Family::kLoad:
      return is_entry && Has(instruction, "param");
    default:
      return false;
  }
}

// Whether the code does not go on behind it.
bool Ends(const Instruction& instruction, Family family) {
  return instruction.guard.empty() &&
         (family == Family::kBranch || family == Family::kReturn || family == Family::kExit);
}

}  // namespace

UniformRegisters::UniformRegisters(const FlatFunction& function) : function_(function) {
  FindBlocks();
  for (bool is_new = true; is_new;) {
    is_new = false;
    for (const Block& block : blocks_) is_new = FollowBlock(block) || is_new;
    is_new = MarkParted() || is_new;
  }
}

void UniformRegisters::FindBlocks() {
  std::unordered_map<std::string, size_t> labels;
  const auto begin = [this](size_t at) {
    if (blocks_.empty() || blocks_.back().begin != at) blocks_.emplace_back().begin = at;
  };
  const auto& code = function_.code;
  begin(0);
  for (size_t i = 0; i < code.size(); ++i) {
    if (const auto* const label = std::get_if<ptx::Label>(&code[i].node)) {
      begin(i);
      labels[label->name] = blocks_.size() - 1;
    }
    const auto* const instruction = std::get_if<Instruction>(&code[i].node);
    Description what;
    if (instruction != nullptr && ptx::Describe(*instruction, &what) == ptx::Verdict::kKnown &&
        Parts(what.row().family)) {
      begin(i + 1);
    }
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    Block& block = blocks_[i];
    block.end = i + 1 < blocks_.size() ? blocks_[i + 1].begin : code.size();
    bool goes_on = i + 1 < blocks_.size();
    if (block.begin != block.end) {
      const auto* const last = std::get_if<Instruction>(&code[block.end - 1].node);
      Description what;
      if (last != nullptr && ptx::Describe(*last, &what) == ptx::Verdict::kKnown) {
        goes_on = goes_on && !Ends(*last, what.row().family);
        const auto target =
            last->opcode == "bra" ? labels.find(last->operands[0].name) : labels.end();
        if (target != labels.end()) block.next.push_back(target->second);
      }
    }
    if (goes_on) block.next.push_back(i + 1);
  }
}

bool UniformRegisters::FollowBlock(const Block& block) {
  bool is_new = false;
  for (size_t i = block.begin; i < block.end; ++i) {
    const auto* const instruction = std::get_if<Instruction>(&function_.code[i].node);
    if (instruction != nullptr) is_new = Follow(*instruction, block.is_parted) || is_new;
  }
  return is_new;
}

bool UniformRegisters::Follow(const Instruction& instruction, bool is_parted) {
  Description what;
  const bool is_known = ptx::Describe(instruction, &what) == ptx::Verdict::kKnown;
  bool differs = is_parted || !is_known ||
                 !FollowsFromOperands(instruction, what, function_.source->is_entry) ||
                 (!instruction.guard.empty() && differing_.contains(instruction.guard));
  for (size_t i = 0; i < instruction.operands.size() && !differs; ++i) {
    differs = what.roles()[i] != ptx::Role::kDestination && Differs(instruction.operands[i]);
  }
  if (!differs) return false;
  bool is_new = false;
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    if (!is_known || MayBeWritten(what.roles()[i])) {
      is_new = Mark(instruction.operands[i]) || is_new;
    }
  }
  return is_new;
}

bool UniformRegisters::Differs(const Operand& operand) const {
  if (std::any_of(operand.elements.begin(), operand.elements.end(),
                  [this](const Operand& element) { return Differs(element); })) {
    return true;
  }
  if (operand.name.empty() || operand.name == "_") return false;
  const Symbol* const symbol = function_.Find(operand.name);
  if (symbol != nullptr && symbol->kind == Symbol::Kind::kRegister) {
    return differing_.contains(operand.name);
  }
  // A variable's address is the same for all, but where each thread has its own.
  if (symbol != nullptr) return symbol->kind == Symbol::Kind::kLocal;
  return operand.name.starts_with('%') && !IsSame(operand.name);
}

bool UniformRegisters::Mark(const Operand& operand) {
  bool is_new = false;
  for (const Operand& element : operand.elements) is_new = Mark(element) || is_new;
  if (operand.name.empty()) return is_new;
  return differing_.insert(operand.name).second || is_new;
}

// Finds where lanes may be that have taken different ways.
bool UniformRegisters::MarkParted() {
  std::vector<size_t> open;
  for (const Block& block : blocks_) {
    if (block.begin == block.end || block.next.size() < 2) continue;
    const auto* const last = std::get_if<Instruction>(&function_.code[block.end - 1].node);
    if (last == nullptr || last->opcode != "bra" || !differing_.contains(last->guard)) continue;
    open.insert(open.end(), block.next.begin(), block.next.end());
  }
  bool is_new = false;
  while (!open.empty()) {
    Block& block = blocks_[open.back()];
    open.pop_back();
    if (std::exchange(block.is_parted, true)) continue;
    is_new = true;
    open.insert(open.end(), block.next.begin(), block.next.end());
  }
  return is_new;
}

}  // namespace warpline::guard
