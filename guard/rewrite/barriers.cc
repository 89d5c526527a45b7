#include "guard/rewrite/barriers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "guard/rewrite/families.h"
#include "guard/rewrite/limits.h"
#include "guard/rewrite/runtime.h"
#include "guard/rewrite/statements.h"

namespace warpline::guard {
namespace {

using ptx::Description;
using ptx::Instruction;
using ptx::Operand;

// What one number may stand for.
struct Form {
  uint64_t number = 0;
  bool reduces = false;
  uint64_t threads = 0;  // 0 if it does not say

  friend bool operator==(const Form&, const Form&) = default;
  friend bool operator<(const Form& a, const Form& b) {
    return std::tie(a.number, a.reduces, a.threads) < std::tie(b.number, b.reduces, b.threads);
  }
};

// Of all threads of a block, as the one behind the zeroing.
constexpr Form kOfAll;

struct Barrier {
  Instruction* instruction = nullptr;
  Operand* number = nullptr;
  Form form;
};

// Kernels that share functions with barriers, or one that does not, with their functions.
struct Group {
  std::vector<std::string> kernels;
  std::set<std::string> functions;
  bool zeroes = false;
};

// The barriers of a function that have literals, in the order of the text.
std::vector<Barrier> BarriersOf(FlatFunction* function) {
  std::optional<KnownNumbers> known;
  std::vector<Barrier> barriers;
  for (ptx::Statement& statement : function->code) {
    auto* const instruction = std::get_if<Instruction>(&statement.node);
    Description what;
    if (instruction == nullptr || ptx::Describe(*instruction, &what) != ptx::Verdict::kKnown ||
        what.row().family != ptx::Family::kBlockBarrier) {
      continue;
    }
    if (!known.has_value()) known.emplace(*function);
    NumberBarrier(what, *known, instruction);
    const auto [number, count] = NumbersOf(what, instruction);
    if (!IsBarrierNumber(*number) || (count != nullptr && !AreThreadsOfABarrier(*count))) continue;
    const Form form = {number->value, Has(*instruction, "red"),
                       count == nullptr ? 0 : count->value};
    barriers.push_back({instruction, number, form});
  }
  return barriers;
}

// The kernel, and who is called by it.
std::set<std::string> ReachedFrom(const std::string& kernel, const FunctionsByName& functions) {
  std::set<std::string> reached = {kernel};
  std::vector<std::string> open = {kernel};
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    for (const std::string& callee : CalleesOf(functions.at(name))) {
      if (functions.contains(callee) && reached.insert(callee).second) open.push_back(callee);
    }
  }
  return reached;
}

// The number of each form: its own if no other one has it. False if there are too many.
bool Choose(const std::vector<Form>& forms, std::map<Form, uint64_t>* numbers) {
  std::set<uint64_t> taken;
  for (const Form& form : forms) {
    if (taken.insert(form.number).second) (*numbers)[form] = form.number;
  }
  uint64_t next = 0;
  for (const Form& form : forms) {
    if (numbers->contains(form)) continue;
    while (taken.contains(next)) ++next;
    if (next > kLastBarrier) return false;
    taken.insert(next);
    (*numbers)[form] = next;
  }
  return true;
}

// A barrier with a predicate becomes a branch around one.
void SkipInsteadOfPredicates(FlatFunction* function) {
  std::vector<ptx::Statement> code;
  int labels = 0;
  for (ptx::Statement& statement : function->code) {
    auto* const instruction = std::get_if<Instruction>(&statement.node);
    Description what;
    const bool skips = instruction != nullptr && !instruction->guard.empty() &&
                       ptx::Describe(*instruction, &what) == ptx::Verdict::kKnown &&
                       what.row().family == ptx::Family::kBlockBarrier;
    if (!skips) {
      code.push_back(std::move(statement));
      continue;
    }
    const std::string after = absl::StrCat(std::string(kRuntimePrefix), "awaited_", labels++);
    Instruction skip = Make("bra", {Name(after)});
    skip.guard = std::move(instruction->guard);
    skip.guard_negated = !instruction->guard_negated;
    instruction->guard.clear();
    instruction->guard_negated = false;
    const auto line = statement.line;
    code.push_back({std::move(skip), line});
    code.push_back(std::move(statement));
    code.push_back({ptx::Label{after}, line});
    function->labels.insert(after);
  }
  function->code = std::move(code);
}

}  // namespace

std::pair<Operand*, Operand*> NumbersOf(const Description& what, Instruction* barrier) {
  Operand* numbers[2] = {};
  size_t count = 0;
  for (size_t i = 0; i < barrier->operands.size() && count < 2; ++i) {
    if (what.roles()[i] == ptx::Role::kSource) numbers[count++] = &barrier->operands[i];
  }
  return {numbers[0], numbers[1]};
}

bool IsBarrierNumber(const Operand& number) {
  return number.kind == Operand::Kind::kInteger && number.value <= kLastBarrier;
}

bool AreThreadsOfABarrier(const Operand& count) {
  return count.kind == Operand::Kind::kInteger && count.value > 0 && count.value <= kMostThreads &&
         count.value % kLanes == 0;
}

void NumberBarrier(const Description& what, const KnownNumbers& known, Instruction* barrier) {
  const auto replace = [&](Operand* operand, bool (*is_allowed)(const Operand&)) {
    if (operand == nullptr || operand->kind != Operand::Kind::kName) return;
    const auto only = known.OnlyOf(operand->name);
    if (!only.has_value()) return;
    Operand number = Number(static_cast<int64_t>(*only));
    if (is_allowed(number)) *operand = std::move(number);
  };
  const auto [number, count] = NumbersOf(what, barrier);
  replace(number, IsBarrierNumber);
  replace(count, AreThreadsOfABarrier);
}

NumberedBarriers NumberBarriers(const std::unordered_set<std::string>& zeroing,
                                FunctionsByName* functions) {
  NumberedBarriers result;
  std::map<std::string, std::vector<Barrier>> barriers;
  for (auto& [name, function] : *functions) {
    std::vector<Barrier> found = BarriersOf(&function);
    if (!found.empty()) barriers[name] = std::move(found);
  }
  std::map<std::string, std::set<std::string>> reached;  // By kernels, with barriers
  std::map<std::string, Group> groups;
  for (const auto& [kernel, function] : *functions) {
    if (!function.source->is_entry) continue;
    std::set<std::string>& own = reached[kernel];
    for (const std::string& name : ReachedFrom(kernel, *functions)) {
      if (barriers.contains(name)) own.insert(name);
    }
    if (own.empty()) continue;
    // No function is called so.
    const bool is_alone = own.size() == 1 && own.contains(kernel);
    Group& group = groups[is_alone ? kernel : std::string()];
    group.kernels.push_back(kernel);
    group.functions.insert(own.begin(), own.end());
    group.zeroes = group.zeroes || zeroing.contains(kernel);
  }
  for (const auto& [key, group] : groups) {
    std::vector<Form> forms;
    for (const std::string& name : group.functions) {
      for (const Barrier& barrier : barriers.at(name)) forms.push_back(barrier.form);
    }
    // Where there is one of all threads, it keeps its number.
    const bool is_of_all = std::find(forms.begin(), forms.end(), kOfAll) != forms.end();
    if (group.zeroes || is_of_all) forms.insert(forms.begin(), kOfAll);
    std::map<Form, uint64_t> numbers;
    if (!Choose(forms, &numbers)) {
      result.refused.insert(group.kernels.begin(), group.kernels.end());
      continue;
    }
    for (const std::string& name : group.functions) {
      for (Barrier& barrier : barriers.at(name)) {
        barrier.form.number = numbers.at(barrier.form);
        barrier.number->value = barrier.form.number;
      }
    }
  }
  for (const auto& [kernel, names] : reached) {
    std::set<std::pair<Form, bool>> forms;  // With whether they only arrive
    if (zeroing.contains(kernel)) forms.insert({kOfAll, false});
    for (const std::string& name : names) {
      for (const Barrier& barrier : barriers.at(name)) {
        forms.insert({barrier.form, Has(*barrier.instruction, "arrive")});
      }
    }
    if (forms.size() > 1) result.have_several.insert(names.begin(), names.end());
  }
  for (const std::string& name : result.have_several) SkipInsteadOfPredicates(&functions->at(name));
  return result;
}

}  // namespace warpline::guard
