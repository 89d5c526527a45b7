#include "guard/rewrite/warp_atomics.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "guard/rewrite/runtime.h"
#include "guard/rewrite/statements.h"
#include "ptx/instruction_set.h"
#include "ptx/types.h"

namespace warpline::guard {
namespace {

using ptx::Description;
using ptx::Family;
using ptx::Instruction;
using ptx::Operand;
using ptx::Role;

std::string Ours(std::string_view name) {
  return absl::StrCat(std::string(kRuntimePrefix), std::string(name));
}

bool IsSameInABlock(std::string_view special_register) {
  for (const std::string_view prefix : {"%ctaid", "%nctaid", "%ntid"}) {
    if (special_register.starts_with(prefix)) return true;
  }
  return false;
}

// What is known of a function's registers: which hold the same in all lanes whenever they are read,
// and which are never read.
class Registers {
 public:
  explicit Registers(const FlatFunction& function) : function_(function) {
    for (const ptx::Statement& statement : function.code) {
      const auto* const instruction = std::get_if<Instruction>(&statement.node);
      if (instruction != nullptr) Count(*instruction);
    }
    for (const ptx::Statement& statement : function.code) {
      const auto* const instruction = std::get_if<Instruction>(&statement.node);
      if (instruction != nullptr) Follow(*instruction);
    }
  }

  bool IsUniform(const Operand& operand) const {
    if (!operand.elements.empty()) {
      return std::all_of(operand.elements.begin(), operand.elements.end(),
                         [&](const Operand& element) { return IsUniform(element); });
    }
    if (operand.name.empty()) return operand.kind != Operand::Kind::kList;
    const Symbol* const symbol = function_.Find(operand.name);
    if (symbol == nullptr) return operand.name[0] != '%' || IsSameInABlock(operand.name);
    if (symbol->kind == Symbol::Kind::kRegister) return uniform_.contains(operand.name);
    return symbol->kind == Symbol::Kind::kParameter && function_.source->is_entry;
  }

  bool IsRead(const std::string& name) const { return read_.contains(name); }

 private:
  void Count(const Instruction& instruction) {
    if (!instruction.guard.empty()) read_.insert(instruction.guard);
    Description what;
    const bool is_known = ptx::Describe(instruction, &what) == ptx::Verdict::kKnown;
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      Note(instruction.operands[i], is_known && what.roles()[i] == Role::kDestination);
    }
  }

  void Note(const Operand& operand, bool is_written) {
    for (const Operand& element : operand.elements) Note(element, is_written);
    if (operand.name.empty()) return;
    if (is_written) {
      ++writes_[operand.name];
    } else {
      read_.insert(operand.name);
    }
  }

  void Follow(const Instruction& instruction) {
    Description what;
    if (!instruction.guard.empty() || ptx::Describe(instruction, &what) != ptx::Verdict::kKnown) {
      return;
    }
    // The carry is the lane's own.
    for (const std::string_view carries : {"addc", "subc", "madc"}) {
      if (instruction.opcode == carries) return;
    }
    switch (what.row().family) {
      case Family::kArithmetic:
      case Family::kMove:
      case Family::kCompare:
      case Family::kSet:
      case Family::kConvert:
      case Family::kConvertAddress:
        break;
      case Family::kLoad:
        if (what.accesses().empty() || what.accesses()[0].space != ptx::StateSpace::kParam ||
            function_.Find(instruction.operands[1].name) == nullptr) {
          return;
        }
        break;
      default:
        return;
    }
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      if (what.roles()[i] != Role::kDestination && !IsUniform(instruction.operands[i])) return;
    }
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      if (what.roles()[i] == Role::kDestination) Add(instruction.operands[i]);
    }
  }

  void Add(const Operand& operand) {
    for (const Operand& element : operand.elements) Add(element);
    const auto writes = writes_.find(operand.name);
    if (writes != writes_.end() && writes->second == 1) uniform_.insert(operand.name);
  }

  const FlatFunction& function_;
  std::unordered_map<std::string, int> writes_;
  std::unordered_set<std::string> read_;
  std::unordered_set<std::string> uniform_;
};

class Aggregator {
 public:
  Aggregator(bool has_redux, FlatFunction* function)
      : has_redux_(has_redux), function_(*function), registers_(*function) {}

  void Run() {
    std::vector<ptx::Statement> code = std::exchange(function_.code, {});
    for (ptx::Statement& statement : code) {
      const auto* const instruction = std::get_if<Instruction>(&statement.node);
      line_ = statement.line;
      if (instruction == nullptr || !Replace(*instruction)) {
        function_.code.push_back(std::move(statement));
      }
    }
    for (const std::string_view name : used_) Declare(name);
  }

 private:
  // An addition of which the parts are the lanes'.
  struct Part {
    Instruction atomic;
    bool is_wide = false;
    Operand address;
    Operand value;
    Operand result;  // `_` when nobody reads it
  };

  bool Replace(const Instruction& instruction) {
    if (instruction.opcode != "atom" && instruction.opcode != "red") return false;
    Description what;
    if (ptx::Describe(instruction, &what) != ptx::Verdict::kKnown ||
        what.row().family != Family::kAtomic || what.accesses().empty() || what.vector() != 1 ||
        what.accesses()[0].space != ptx::StateSpace::kGlobal) {
      return false;
    }
    // What one lane orders it does not order for the others.
    for (const std::string_view order : {"acquire", "release", "acq_rel", "noftz"}) {
      if (std::find(instruction.modifiers.begin(), instruction.modifiers.end(), order) !=
          instruction.modifiers.end()) {
        return false;
      }
    }
    const size_t at = what.accesses()[0].operand;
    if (instruction.operands.size() != at + 2) return false;  // With a hint for the cache
    Part part;
    part.atomic = instruction;
    part.address = instruction.operands[at];
    part.value = instruction.operands[at + 1];
    part.result = at == 0 ? Name("_") : instruction.operands[0];
    if (!part.result.elements.empty() || part.result.name.empty()) return false;
    if (!registers_.IsRead(part.result.name)) part.result = Name("_");
    if (!registers_.IsUniform(part.address) || part.value.kind == Operand::Kind::kVector) {
      return false;
    }
    const std::string_view type = what.type();
    const bool is_word = type == "u32" || type == "s32" || type == "b32";
    part.is_wide = type == "u64";
    const bool adds = what.operation() == "add" && (is_word || part.is_wide);
    if (adds && registers_.IsUniform(part.value)) {
      Skipping(instruction, [&] { AddMultiple(part); });
      return true;
    }
    if (has_redux_ && is_word && part.result.name == "_" && IsReducible(what.operation())) {
      Skipping(instruction, [&] { Reduce(part, what.operation(), type); });
      return true;
    }
    return false;
  }

  static bool IsReducible(std::string_view operation) {
    static constexpr std::string_view kOperations[] = {"add", "min", "max", "and", "or", "xor"};
    return std::find(std::begin(kOperations), std::end(kOperations), operation) !=
           std::end(kOperations);
  }

  // What `write` writes is jumped over by lanes that do not execute the instruction.
  template <typename Write>
  void Skipping(const Instruction& instruction, Write write) {
    const bool skips = !instruction.guard.empty();
    const std::string after = Ours(absl::StrCat("added_", labels_));
    if (skips) {
      ++labels_;
      Instruction skip = Make("bra", {Name(after)});
      skip.guard = instruction.guard;
      skip.guard_negated = !instruction.guard_negated;
      Put(std::move(skip));
      function_.labels.insert(after);
    }
    write();
    if (skips) function_.code.push_back({ptx::Label{after}, line_});
  }

  // The lanes that are here, and how many of them come before this one.
  void Rank() {
    Put(Make("activemask.b32", {Use("a_mask")}));
    Put(Make("mov.u32", {Use("a_rank"), Name("%lanemask_lt")}));
    Put(Make("and.b32", {Use("a_rank"), Use("a_rank"), Use("a_mask")}));
    Put(Make("popc.b32", {Use("a_rank"), Use("a_rank")}));
    Put(Make("setp.eq.u32", {Use("a_first"), Use("a_rank"), Number(0)}));
  }

  // The first of these lanes makes the access, with `value` for its own.
  void ByFirst(const Part& part, const Operand& result, const Operand& value) {
    Instruction atomic = part.atomic;
    atomic.guard = Ours("a_first");
    atomic.guard_negated = false;
    const size_t at = atomic.operands.size() - 2;
    atomic.operands[at + 1] = value;
    if (at == 1) atomic.operands[0] = result;
    Put(std::move(atomic));
  }

  void AddMultiple(const Part& part) {
    Rank();
    const bool is_one = part.value.name.empty() && part.value.value == 1;
    Put(Make("popc.b32", {Use("a_count"), Use("a_mask")}));
    Operand total = Use(part.is_wide ? "a_wide_total" : "a_count");
    if (part.is_wide) Put(Make("cvt.u64.u32", {total, Use("a_count")}));
    if (!is_one) Put(Make(part.is_wide ? "mul.lo.u64" : "mul.lo.u32", {total, total, part.value}));
    if (part.result.name == "_") {
      ByFirst(part, part.result, total);
      return;
    }
    const Operand old = Use(part.is_wide ? "a_wide_old" : "a_old");
    Put(Make(part.is_wide ? "mov.b64" : "mov.b32", {old, Number(0)}));
    ByFirst(part, old, total);
    // The first lane is that of the lowest bit.
    Put(Make("brev.b32", {Use("a_count"), Use("a_mask")}));
    Put(Make("clz.b32", {Use("a_count"), Use("a_count")}));
    if (!part.is_wide) {
      FromFirst("a_old");
      if (is_one) {
        Put(Make("add.s32", {part.result, old, Use("a_rank")}));
      } else {
        Put(Make("mad.lo.s32", {part.result, Use("a_rank"), part.value, old}));
      }
      return;
    }
    Use("a_low");
    Use("a_high");
    Put(Make("mov.b64", {Halves(Ours("a_low"), Ours("a_high")), old}));
    FromFirst("a_low");
    FromFirst("a_high");
    Put(Make("mov.b64", {old, Halves(Ours("a_low"), Ours("a_high"))}));
    Put(Make("cvt.u64.u32", {total, Use("a_rank")}));
    if (!is_one) Put(Make("mul.lo.u64", {total, total, part.value}));
    Put(Make("add.s64", {part.result, old, total}));
  }

  void FromFirst(std::string_view name) {
    Put(Make("shfl.sync.idx.b32",
             {Use(name), Use(name), Use("a_count"), Number(31), Use("a_mask")}));
  }

  void Reduce(const Part& part, std::string_view operation, std::string_view type) {
    Rank();
    const std::string mnemonic =
        absl::StrCat("redux.sync.", std::string(operation), ".", std::string(type));
    // The value may be a literal, which `redux` does not take.
    Put(Make("mov.b32", {Use("a_count"), part.value}));
    Put(Make(mnemonic, {Use("a_count"), Use("a_count"), Use("a_mask")}));
    ByFirst(part, part.result, Use("a_count"));
  }

  Operand Use(std::string_view name) {
    if (std::find(used_.begin(), used_.end(), name) == used_.end()) used_.push_back(name);
    return Name(Ours(name));
  }

  void Declare(std::string_view name) {
    ptx::Variable variable;
    variable.space = "reg";
    variable.type = name == "a_first" ? "pred" : name.starts_with("a_wide_") ? "b64" : "b32";
    variable.name = Ours(name);
    Symbol symbol;
    symbol.type = variable.type;
    function_.names.emplace(variable.name, std::move(symbol));
    function_.declarations.push_back(std::move(variable));
  }

  void Put(Instruction instruction) { function_.code.push_back({std::move(instruction), line_}); }

  const bool has_redux_;
  FlatFunction& function_;
  const Registers registers_;
  ptx::SourceLine line_;
  std::vector<std::string_view> used_;
  int labels_ = 0;
};

}  // namespace

void AggregateAtomics(bool has_redux, FlatFunction* function) {
  Aggregator(has_redux, function).Run();
}

}  // namespace warpline::guard
