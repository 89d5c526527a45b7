#include "guard/rewrite/checks.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "guard/rewrite/runtime.h"
#include "guard/rewrite/statements.h"
#include "ptx/instruction_set.h"
#include "ptx/printer.h"
#include "ptx/types.h"

namespace warpline::guard {
namespace {

using ptx::Instruction;
using ptx::MemoryAccess;
using ptx::StateSpace;

constexpr size_t kMostStatement = 120;

std::string Ours(std::string_view name) {
  return absl::StrCat(std::string(kRuntimePrefix), std::string(name));
}

class Checker {
 public:
  Checker(uint32_t first_site, FlatFunction* function, std::vector<CheckSite>* sites)
      : first_site_(first_site), function_(*function), sites_(*sites) {}

  void Run() {
    std::vector<ptx::Statement> code = std::exchange(function_.code, {});
    for (ptx::Statement& statement : code) {
      if (const auto* const instruction = std::get_if<Instruction>(&statement.node)) {
        line_ = statement.line;
        Check(*instruction);
      }
      function_.code.push_back(std::move(statement));
    }
    if (used_) Declare();
  }

 private:
  void Check(const Instruction& instruction) {
    ptx::Description what;
    if (ptx::Describe(instruction, &what) != ptx::Verdict::kKnown) return;
    for (const MemoryAccess& access : what.accesses()) {
      if (access.kind == ptx::AccessKind::kNone) continue;
      CheckSpace space;
      switch (access.space) {
        case StateSpace::kGeneric:
          space = CheckSpace::kGeneric;
          break;
        case StateSpace::kGlobal:
          space = CheckSpace::kGlobal;
          break;
        case StateSpace::kShared:
          space = CheckSpace::kShared;
          break;
        default:
          continue;
      }
      const ptx::Operand& address = instruction.operands[access.operand];
      const Symbol* const symbol = function_.Find(address.name);
      if (symbol == nullptr || symbol->kind != Symbol::Kind::kRegister) continue;
      const int width = ptx::TypeBytes(symbol->type);
      if (width != 4 && width != 8) continue;
      Call(instruction, access, space, address, width == 8);
    }
  }

  void Call(const Instruction& instruction, const MemoryAccess& access, CheckSpace space,
            const ptx::Operand& address, bool is_wide) {
    used_ = true;
    const std::string after = Ours(absl::StrCat("checked_", checks_++));
    const bool skips = !instruction.guard.empty();
    if (skips) {
      Instruction skip = Make("bra", {Name(after)});
      skip.guard = instruction.guard;
      skip.guard_negated = !instruction.guard_negated;
      Put(std::move(skip));
      function_.labels.insert(after);
    }
    const std::string sum = Ours("sum");
    if (is_wide) {
      Put(Make("add.s64", {Name(sum), Name(address.name), Number(address.offset)}));
    } else {
      Put(Make("cvt.u64.u32", {Name(sum), Name(address.name)}));
      Put(Make("add.s64", {Name(sum), Name(sum), Number(address.offset)}));
    }
    const auto site = static_cast<int64_t>(first_site_ + sites_.size());
    // The rows of a matrix are a stride apart: its first byte is checked.
    const auto bytes = static_cast<int64_t>(std::max<uint64_t>(access.bytes, 1));
    Put(Make("st.param.b64", {Address(Ours("c_address")), Name(sum)}));
    Put(Make("st.param.b32", {Address(Ours("c_site")), Number(site)}));
    Put(Make("st.param.b32", {Address(Ours("c_bytes")), Number(bytes)}));
    Put(Make("st.param.b32", {Address(Ours("c_space")), Number(static_cast<int64_t>(space))}));
    ptx::Operand arguments;
    arguments.kind = ptx::Operand::Kind::kList;
    for (const std::string_view name : {"c_address", "c_site", "c_bytes", "c_space"}) {
      arguments.elements.push_back(Name(Ours(name)));
    }
    Put(Make("call", {Name(kCheckFunction), std::move(arguments)}));
    if (skips) function_.code.push_back({ptx::Label{after}, line_});
    CheckSite found;
    found.function = function_.source->name;
    found.line = line_.number;
    found.statement = ptx::Print(instruction);
    if (found.statement.ends_with(';')) found.statement.pop_back();
    if (found.statement.size() > kMostStatement) found.statement.resize(kMostStatement);
    found.writes = access.kind != ptx::AccessKind::kRead;
    sites_.push_back(std::move(found));
  }

  void Declare() {
    Add("reg", "b64", "sum", Symbol::Kind::kRegister);
    Add("param", "b64", "c_address", Symbol::Kind::kArgument);
    for (const std::string_view name : {"c_site", "c_bytes", "c_space"}) {
      Add("param", "b32", name, Symbol::Kind::kArgument);
    }
  }

  void Add(std::string_view space, std::string_view type, std::string_view name,
           Symbol::Kind kind) {
    ptx::Variable variable;
    variable.space = space;
    variable.type = type;
    variable.name = Ours(name);
    Symbol symbol;
    symbol.kind = kind;
    symbol.type = type;
    symbol.bytes = static_cast<uint64_t>(ptx::TypeBytes(type));
    function_.names.emplace(variable.name, std::move(symbol));
    function_.declarations.push_back(std::move(variable));
  }

  void Put(Instruction instruction) { function_.code.push_back({std::move(instruction), line_}); }

  const uint32_t first_site_;
  FlatFunction& function_;
  std::vector<CheckSite>& sites_;
  ptx::SourceLine line_;
  bool used_ = false;
  int checks_ = 0;
};

}  // namespace

void AddChecks(uint32_t first_site, FlatFunction* function, std::vector<CheckSite>* sites) {
  Checker(first_site, function, sites).Run();
}

}  // namespace warpline::guard
