#include "guard/rewrite/counted_loops.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "guard/rewrite/families.h"
#include "guard/rewrite/statements.h"
#include "ptx/instruction_set.h"

namespace warpline::guard {
namespace {

using ptx::Description;
using ptx::Family;
using ptx::Instruction;
using ptx::Operand;
using Goes = CountedLoop::Goes;

// How a loop goes on while its predicate holds.
struct Comparison {
  std::string_view name;
  std::string_view otherwise;  // What it is if negated
  Goes goes;
  bool upwards;  // The way in which the counter has to go; either one until it is equal
};
constexpr Comparison kComparisons[] = {
    {"ne", "eq", Goes::kUntilEqual, true},         {"lt", "ge", Goes::kWhileShort, true},
    {"gt", "le", Goes::kWhileShort, false},        {"le", "gt", Goes::kWhileShortOrEqual, true},
    {"ge", "lt", Goes::kWhileShortOrEqual, false},
};

// Whether it matters which threads come to an instruction together. ptxas does not unroll loops for
// it, or makes several of it, so that threads which have counted differently would be at different
// ones.
bool MattersWhoComes(Family family) {
  switch (family) {
    case Family::kBlockBarrier:
    case Family::kWarpBarrier:
    case Family::kShuffle:
    case Family::kVote:
    case Family::kMatch:
    case Family::kReduce:
    case Family::kActiveMask:
    case Family::kElect:
      return true;
    default:
      return IsOfAWarp(family);
  }
}

// Of the statements of a loop that ptxas unrolls. Of multiplications alone it takes 20 into four,
// of loads with their fences and what uses them 5 of each (CUDA 13.0, sm_90).
constexpr int kMostUnrolled = 23;

// How many of these an instruction is; more than all for one with which a loop is not unrolled, as
// it becomes a call, or shall not be.
int UnrolledSizeOf(const Instruction& instruction, const Description& what) {
  constexpr std::string_view kCalls[] = {"div", "rem", "sqrt", "rcp"};
  const bool is_call =
      std::find(std::begin(kCalls), std::end(kCalls), instruction.opcode) != std::end(kCalls) &&
      !Has(instruction, "approx") && !Has(instruction, "full");
  if (is_call || MattersWhoComes(what.row().family)) return kMostUnrolled + 1;
  constexpr int kFence = 2;
  return 1 + kFence * static_cast<int>(what.accesses().size());
}

bool IsPlainRegister(const Operand& operand) {
  return operand.kind == Operand::Kind::kName && operand.offset == 0 && !operand.negated &&
         operand.component.empty() && operand.elements.empty();
}

bool Names(const Operand& operand, std::string_view name) {
  return operand.name == name ||
         std::any_of(operand.elements.begin(), operand.elements.end(),
                     [name](const Operand& element) { return Names(element, name); });
}

// The statements between a loop's label and its branch, which are all instructions.
class Body {
 public:
  explicit Body(std::vector<const Instruction*> instructions)
      : instructions_(std::move(instructions)) {}

  // The place of the only one that may write the register; none if there is another number.
  std::optional<size_t> OnlyWriterOf(std::string_view name) const {
    std::optional<size_t> only;
    for (size_t i = 0; i < instructions_.size(); ++i) {
      if (!Writes(*instructions_[i], name)) continue;
      if (only.has_value()) return std::nullopt;
      only = i;
    }
    return only;
  }
  bool HasWriterOf(std::string_view name) const {
    return std::any_of(instructions_.begin(), instructions_.end(),
                       [name](const Instruction* one) { return Writes(*one, name); });
  }
  const Instruction& operator[](size_t place) const { return *instructions_[place]; }

 private:
  static bool Writes(const Instruction& instruction, std::string_view name) {
    Description what;
    if (ptx::Describe(instruction, &what) != ptx::Verdict::kKnown) return true;
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      if (MayBeWritten(what.roles()[i]) && Names(instruction.operands[i], name)) return true;
    }
    return false;
  }

  const std::vector<const Instruction*> instructions_;
};

// What each pass adds to the counter; 0 if the instruction does something else.
int64_t StepOf(const Instruction& instruction, std::string_view counter) {
  const bool adds = instruction.opcode == "add", takes = instruction.opcode == "sub";
  if ((!adds && !takes) || !instruction.guard.empty() || instruction.modifiers.size() != 1 ||
      !IsInteger32(instruction.modifiers[0]) || instruction.operands.size() != 3) {
    return 0;
  }
  const Operand& from = instruction.operands[1];
  const Operand& step = instruction.operands[2];
  if (!IsPlainRegister(instruction.operands[0]) || !IsPlainRegister(from) || from.name != counter ||
      step.kind != Operand::Kind::kInteger) {
    return 0;
  }
  const auto value = static_cast<int64_t>(static_cast<int32_t>(step.value));
  return adds ? value : -value;
}

bool IsRegister32(const FlatFunction& function, const Operand& operand) {
  if (!IsPlainRegister(operand)) return false;
  const Symbol* const symbol = function.Find(operand.name);
  return symbol != nullptr && symbol->kind == Symbol::Kind::kRegister && IsInteger32(symbol->type);
}

// The loop of which these are the statements, and `branch` leads back.
std::optional<CountedLoop> CountedLoopOf(const FlatFunction& function, const Body& body,
                                         const Instruction& branch) {
  const std::optional<size_t> compares = body.OnlyWriterOf(branch.guard);
  if (!compares.has_value()) return std::nullopt;
  const Instruction& compare = body[*compares];
  if (compare.opcode != "setp" || !compare.guard.empty() || compare.modifiers.size() != 2 ||
      compare.operands.size() != 3 || !IsPlainRegister(compare.operands[0]) ||
      !IsRegister32(function, compare.operands[1])) {
    return std::nullopt;
  }
  const auto* const comparison =
      std::find_if(std::begin(kComparisons), std::end(kComparisons), [&](const Comparison& one) {
        return compare.modifiers[0] == (branch.guard_negated ? one.otherwise : one.name);
      });
  if (comparison == std::end(kComparisons) || !IsInteger32(compare.modifiers[1])) {
    return std::nullopt;
  }
  CountedLoop loop = {.counter = compare.operands[1].name,
                      .bound = compare.operands[2],
                      .goes = comparison->goes,
                      .upwards = comparison->upwards,
                      .is_signed = compare.modifiers[1] == "s32"};
  const std::optional<size_t> steps = body.OnlyWriterOf(loop.counter);
  if (!steps.has_value() || *steps > *compares) return std::nullopt;
  const int64_t step = StepOf(body[*steps], loop.counter);
  if (step == 0) return std::nullopt;
  loop.step = static_cast<uint32_t>(step < 0 ? -step : step);
  if (loop.goes == Goes::kUntilEqual) loop.upwards = step > 0;
  if (loop.upwards != (step > 0)) return std::nullopt;
  if (loop.bound.kind == Operand::Kind::kInteger) {
    // Numbers that are the same for all who compare and subtract.
    const auto value = static_cast<int64_t>(loop.bound.value);
    const bool is_plain = value <= INT32_MAX && value >= (loop.is_signed ? INT32_MIN : 0);
    return is_plain ? std::optional(std::move(loop)) : std::nullopt;
  }
  const bool stays = IsRegister32(function, loop.bound) && loop.bound.name != loop.counter &&
                     !body.HasWriterOf(loop.bound.name);
  return stays ? std::optional(std::move(loop)) : std::nullopt;
}

// Of a function, to one label.
struct Branches {
  int count = 0;
  size_t last = 0;  // The place of the last one
};

}  // namespace

std::unordered_map<std::string, CountedLoop> CountedLoopsOf(const FlatFunction& function) {
  std::unordered_map<std::string, CountedLoop> loops;
  // What is called may be called in a loop.
  if (!function.source->is_entry) return loops;
  const auto& code = function.code;
  std::unordered_map<std::string, Branches> branches;
  for (size_t place = 0; place < code.size(); ++place) {
    const auto* const instruction = std::get_if<Instruction>(&code[place].node);
    if (instruction == nullptr || instruction->opcode != "bra") continue;
    for (const Operand& operand : instruction->operands) {
      Branches& to = branches[operand.name];
      ++to.count;
      to.last = place;
    }
  }
  const ptx::Label* label = nullptr;  // Of the run that is followed, if that may be a loop
  size_t loops_end = 0;               // Where the last of the loops ends that begin until there
  std::vector<const Instruction*> run;
  int size = 0;
  for (size_t place = 0; place < code.size(); ++place) {
    if (const auto* const next = std::get_if<ptx::Label>(&code[place].node)) {
      label = next;
      loops_end = std::max(loops_end, branches[label->name].last);
      run.clear();
      size = 0;
      continue;
    }
    if (label == nullptr) continue;
    const auto* const instruction = std::get_if<Instruction>(&code[place].node);
    Description what;
    // A loop with a pragma shall not be unrolled.
    const bool is_known =
        instruction != nullptr && ptx::Describe(*instruction, &what) == ptx::Verdict::kKnown;
    if (is_known && Parts(what.row().family)) {
      const bool closes = instruction->opcode == "bra" && !instruction->guard.empty() &&
                          instruction->operands[0].name == label->name;
      if (closes && branches[label->name].count == 1 && loops_end == place) {
        std::optional<CountedLoop> loop =
            CountedLoopOf(function, Body(std::move(run)), *instruction);
        if (loop.has_value()) loops.emplace(label->name, *std::move(loop));
      }
      run.clear();
      label = nullptr;
      continue;
    }
    if (is_known) {
      run.push_back(instruction);
      size += UnrolledSizeOf(*instruction, what);
    }
    if (!is_known || size > kMostUnrolled) label = nullptr;
  }
  return loops;
}

// With d for the distance from the counter to the bound, and s for the step, a loop that goes on
// while its counter falls short of the bound makes d / s passes, rounded up; d is 0 where it does
// not fall short to begin with. One that goes on where they are equal, too, makes one more than
// d / s, rounded down. Until they are equal it makes d / s, if that is a whole number, and
// otherwise more. What would be more than 32 bits comes out as less.
void AddPasses(const CountedLoop& loop, std::string_view passes, FenceWriter* code) {
  const Operand counter = Name(loop.counter), result = Name(passes);
  if (loop.goes == Goes::kUntilEqual) {
    code->Add(Make("sub.s32", {result, loop.upwards ? loop.bound : counter,
                               loop.upwards ? counter : loop.bound}));
  } else {
    const std::string_view nearest = loop.upwards ? (loop.is_signed ? "max.s32" : "max.u32")
                                                  : (loop.is_signed ? "min.s32" : "min.u32");
    code->Add(Make(nearest, {result, counter, loop.bound}));
    code->Add(Make("sub.s32",
                   {result, loop.upwards ? result : counter, loop.upwards ? counter : result}));
  }
  if (loop.goes == Goes::kWhileShort && loop.step > 1) {
    code->Add(Make("add.s32", {result, result, Number(loop.step - 1)}));
  }
  if (std::has_single_bit(loop.step)) {
    const int shift = std::countr_zero(loop.step);
    if (shift > 0) code->Add(Make("shr.u32", {result, result, Number(shift)}));
  } else {
    code->Add(Make("div.u32", {result, result, Number(loop.step)}));
  }
  if (loop.goes == Goes::kWhileShortOrEqual) {
    code->Add(Make("add.s32", {result, result, Number(1)}));
  }
}

}  // namespace warpline::guard
