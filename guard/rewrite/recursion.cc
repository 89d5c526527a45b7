#include "guard/rewrite/recursion.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "guard/rewrite/circles.h"
#include "guard/rewrite/limits.h"
#include "guard/rewrite/runtime.h"
#include "guard/rewrite/statements.h"
#include "guard/rewrite/weights.h"
#include "ptx/types.h"

namespace warpline::guard {
namespace {

using ptx::Instruction;
using ptx::Operand;

std::string Ours(std::string_view name) {
  return absl::StrCat(std::string(kRuntimePrefix), std::string(name));
}

// No name of the tenant's begins so, nor one of the runtime's.
std::string NameOfLevel(const std::string& function, int level) {
  return level == 0 ? function : Ours(absl::StrCat("level", level, "_", function));
}

// The name that an instruction calls; null if it is no call.
std::string* CalleeOf(ptx::Statement* statement) {
  auto* const call = std::get_if<Instruction>(&statement->node);
  if (call == nullptr || call->opcode != "call") return nullptr;
  for (Operand& operand : call->operands) {
    if (operand.kind == Operand::Kind::kName) return &operand.name;
  }
  return nullptr;
}

// Has threads end that would call from the last level.
class LastLevel {
 public:
  LastLevel(int levels, FlatFunction* function) : levels_(levels), function_(*function) {}

  void EndCalls(const std::set<std::string>& callees) {
    // Nobody comes behind a call that ends the thread, and ptxas breaks off (13.0) where a result
    // is read there that nothing writes.
    bool is_reached = true;
    for (ptx::Statement& statement : std::exchange(function_.code, {})) {
      is_reached = is_reached || std::holds_alternative<ptx::Label>(statement.node);
      if (!is_reached) continue;
      const std::string* const callee = CalleeOf(&statement);
      if (callee != nullptr && callees.contains(*callee)) {
        const auto& call = std::get<Instruction>(statement.node);
        is_reached = !call.guard.empty();
        End(call, statement.line);
      } else {
        function_.code.push_back(std::move(statement));
      }
    }
    if (ends_ == 0) return;
    Declare(kLine);
    Declare(kLevels);
  }

 private:
  static constexpr std::string_view kLine = "deep_line";
  static constexpr std::string_view kLevels = "deep_levels";

  void End(const Instruction& call, ptx::SourceLine line) {
    const std::string after = Ours(absl::StrCat("shallow_", ends_++));
    if (!call.guard.empty()) {
      Instruction skip = Make("bra", {Name(after)});
      skip.guard = call.guard;
      skip.guard_negated = !call.guard_negated;
      Put(std::move(skip), line);
    }
    Put(Make("st.param.b32", {Address(Ours(kLine)), Number(line.number)}), line);
    Put(Make("st.param.b32", {Address(Ours(kLevels)), Number(levels_)}), line);
    Operand arguments;
    arguments.kind = Operand::Kind::kList;
    arguments.elements = {Name(Ours(kLine)), Name(Ours(kLevels))};
    Put(Make("call", {Name(kTooDeepFunction), std::move(arguments)}), line);
    Put(Make("exit", {}), line);
    if (call.guard.empty()) return;
    function_.code.push_back({ptx::Label{after}, line});
    function_.labels.insert(after);
  }

  void Put(Instruction instruction, ptx::SourceLine line) {
    function_.code.push_back({std::move(instruction), line});
  }

  void Declare(std::string_view name) {
    ptx::Variable variable;
    variable.space = "param";
    variable.type = "b32";
    variable.name = Ours(name);
    Symbol symbol;
    symbol.kind = Symbol::Kind::kArgument;
    symbol.type = variable.type;
    symbol.bytes = sizeof(uint32_t);
    function_.names.emplace(variable.name, std::move(symbol));
    function_.declarations.push_back(std::move(variable));
  }

  const int levels_;
  FlatFunction& function_;
  int ends_ = 0;
};

class Unroller {
 public:
  Unroller(FunctionsByName* functions, Unrolled* unrolled)
      : functions_(*functions), unrolled_(*unrolled) {}

  void Run() {
    // What is called comes before whom it is called by, and so its steps are known.
    for (const Circle& circle : FindCircles(functions_)) {
      const Names names(circle.functions.begin(), circle.functions.end());
      if (circle.calls_itself) {
        Unroll(names);
      } else {
        const std::string& name = circle.functions[0];
        steps_[name] = CallsOf(name, {}).steps;
      }
    }
  }

 private:
  using Names = std::set<std::string>;
  using Steps = std::unordered_map<std::string, int64_t>;

  // What a function executes once, and whom of its circle it calls, once for each call.
  struct Calls {
    int64_t steps = 0;
    std::vector<std::string> inside;
  };

  Calls CallsOf(const std::string& name, const Names& circle) {
    Calls calls;
    for (ptx::Statement& statement : functions_.at(name).code) {
      if (const auto* const instruction = std::get_if<ptx::Instruction>(&statement.node)) {
        calls.steps = std::min(calls.steps + WeightOf(*instruction), kMostLevelSteps + 1);
      }
      const std::string* const callee = CalleeOf(&statement);
      if (callee == nullptr) continue;
      if (circle.contains(*callee)) {
        calls.inside.push_back(*callee);
      } else if (const auto found = steps_.find(*callee); found != steps_.end()) {
        calls.steps = std::min(calls.steps + found->second, kMostLevelSteps + 1);
      }
    }
    return calls;
  }

  // `next` are those of the level below.
  static int64_t StepsOf(const Calls& calls, const Steps& next) {
    int64_t steps = calls.steps;
    for (const std::string& callee : calls.inside) {
      const auto found = next.find(callee);
      const int64_t more = found == next.end() ? kTooDeepSteps : found->second;
      steps = std::min(steps + more, kMostLevelSteps + 1);
    }
    return steps;
  }

  // Of one level.
  struct Size {
    int64_t statements = 0;
    uint64_t local_bytes = 0;
  };

  void Unroll(const Names& circle) {
    Size size;
    for (const std::string& name : circle) {
      const FlatFunction& function = functions_.at(name);
      if (function.source->is_entry) return;
      size.statements += static_cast<int64_t>(function.code.size());
      size.local_bytes += ptx::AlignUp(function.local_bytes, kLocalAlignment);
    }
    const std::string why = WhyNot(circle, size);
    for (const std::string& name : circle) {
      if (!why.empty()) unrolled_.refused[name] = why;
    }
    if (why.empty()) Copy(circle, CountLevels(circle, size));
  }

  // Why a circle is refused; empty if it is not.
  std::string WhyNot(const Names& circle, const Size& size) const {
    for (const std::string& name : circle) {
      for (const ptx::Variable& variable : functions_.at(name).declarations) {
        // The levels would have one each, where the function has one.
        if (variable.space != "shared") continue;
        return "it calls itself and has a variable in shared memory";
      }
    }
    if (size.statements > kMostLeastStatements / kLeastLevels) {
      return "it calls itself, and its copies would have too many statements";
    }
    if (size.local_bytes > kMostLeastLocalBytes / kLeastLevels) {
      return "it calls itself, and its copies would need too much local memory";
    }
    return "";
  }

  // Adds one level after another, from the last one up, and leaves the steps of the first one.
  int CountLevels(const Names& circle, const Size& size) {
    std::map<std::string, Calls> calls;
    for (const std::string& name : circle) calls[name] = CallsOf(name, circle);
    Size sum;
    Steps steps;
    int levels = 0;
    for (; levels < kMostLevels; ++levels) {
      Steps more;
      int64_t most = 0;
      for (const std::string& name : circle) {
        most = std::max(most, more[name] = StepsOf(calls.at(name), steps));
      }
      sum.statements += size.statements;
      sum.local_bytes += size.local_bytes;
      const bool fits = sum.statements <= kMostLevelStatements &&
                        sum.local_bytes <= kMostLevelLocalBytes && most <= kMostLevelSteps;
      if (!fits && levels >= kLeastLevels) break;
      steps = std::move(more);
    }
    steps_.merge(std::move(steps));
    return levels;
  }

  void Copy(const Names& circle, int levels) {
    // The first level is made last, of the functions themselves.
    for (int level = levels - 1; level >= 0; --level) {
      for (const std::string& name : circle) {
        FlatFunction copy = functions_.at(name);
        if (level > 0) copy.source = HeadOf(*copy.source, NameOfLevel(name, level));
        if (level == levels - 1) {
          LastLevel(levels, &copy).EndCalls(circle);
        } else {
          for (ptx::Statement& statement : copy.code) {
            std::string* const callee = CalleeOf(&statement);
            if (callee == nullptr || !circle.contains(*callee)) continue;
            *callee = NameOfLevel(*callee, level + 1);
          }
        }
        functions_[NameOfLevel(name, level)] = std::move(copy);
        if (level > 0) unrolled_.copies.push_back(NameOfLevel(name, level));
      }
    }
  }

  const ptx::Function* HeadOf(const ptx::Function& function, std::string name) {
    ptx::Function& head = unrolled_.heads.emplace_back();
    head.name = std::move(name);
    head.directives = function.directives;
    head.line = function.line;
    return &head;
  }

  FunctionsByName& functions_;
  Unrolled& unrolled_;
  Steps steps_;  // Of functions whose circle is unrolled, or that are in none
};

}  // namespace

Unrolled UnrollRecursion(FunctionsByName* functions) {
  Unrolled unrolled;
  Unroller(functions, &unrolled).Run();
  return unrolled;
}

}  // namespace warpline::guard
