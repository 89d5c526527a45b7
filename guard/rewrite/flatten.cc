#include "guard/rewrite/flatten.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "guard/rewrite/limits.h"
#include "guard/rewrite/runtime.h"
#include "guard/rewrite/words.h"
#include "ptx/types.h"

namespace warpline::guard {
namespace {

using ptx::Operand;
using ptx::Variable;

// The number behind `prefix` in a name that `prefix<count>` declares.
bool InRange(std::string_view name, std::string_view prefix, uint32_t count) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  if (name.empty() || (name[0] == '0' && name.size() > 1)) return false;
  uint32_t number = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == name.data() + name.size() && number < count;
}

// Whether a special register, of this PTX or a later one, may have the name. Compilers call
// registers by a letter or two and a number.
bool MayBeSpecial(std::string_view name) {
  if (!name.starts_with('%')) return false;
  const size_t letters = std::min(name.find_first_of("0123456789_$", 1), name.size()) - 1;
  const std::string_view stem = name.substr(1, letters);
  return letters == 0 || letters > 3 || stem == "tid" || stem == "pm";
}

class Flattener {
 public:
  Flattener(const ptx::Function& function, const std::unordered_set<std::string>& module_names,
            FlatFunction* flat)
      : function_(function), module_names_(module_names), flat_(*flat) {}

  absl::Status Run() {
    flat_.source = &function_;
    scopes_.emplace_back();
    FindLabels();
    if (absl::Status status = DeclareFormals(); !status.ok()) return status;
    for (const ptx::Statement& statement : function_.body) {
      const absl::Status status =
          std::visit([&](const auto& node) { return Take(statement, node); }, statement.node);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  struct Scope {
    uint32_t id = 0;
    std::unordered_map<std::string, std::string> names;  // In the source, and here
    struct Range {
      std::string prefix;
      uint32_t count = 0;
      std::string renamed;
    };
    std::vector<Range> ranges;
  };

  static absl::Status Refuse(ptx::SourceLine line, const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("line ", line.number, ": ", why));
  }

  // Numbers blocks as Take() does. A label may be used before it stands.
  void FindLabels() {
    std::vector<uint32_t> open = {0};
    uint32_t next = 0;
    for (const ptx::Statement& statement : function_.body) {
      if (std::holds_alternative<ptx::OpenBlock>(statement.node)) {
        open.push_back(++next);
      } else if (std::holds_alternative<ptx::CloseBlock>(statement.node)) {
        open.pop_back();
      } else if (const auto* const label = std::get_if<ptx::Label>(&statement.node)) {
        labels_[open.back()].insert(label->name);
      }
    }
  }

  // A name that nothing else of the function has. Blocks have their number in it.
  std::string Rename(const std::string& name, uint32_t scope) const {
    const bool may_be_special = MayBeSpecial(name);
    if (scope == 0 && !may_be_special && !module_names_.contains(name)) return name;
    return absl::StrCat(may_be_special ? "$" + name.substr(1) : name, "$", scope);
  }

  absl::Status Add(const Variable& variable, const std::string& name, Symbol symbol) {
    symbol.type = variable.type;
    if (variable.register_count == 0) {
      if (!flat_.names.emplace(name, std::move(symbol)).second) {
        return Refuse(variable.line, absl::StrCat(name, " is declared twice"));
      }
      return absl::OkStatus();
    }
    for (const FlatFunction::Range& range : flat_.ranges) {
      if (range.prefix == name) {
        return Refuse(variable.line, absl::StrCat(name, "<> is declared twice"));
      }
    }
    flat_.ranges.push_back({name, variable.register_count, std::move(symbol)});
    return absl::OkStatus();
  }

  absl::Status DeclareFormals() {
    uint64_t offset = 0;
    for (const Variable& variable : function_.params) {
      const absl::Status status =
          DeclareFormal(variable, Symbol::Kind::kParameter, &offset, &flat_.params);
      if (!status.ok()) return status;
    }
    if (function_.is_entry &&
        ptx::AlignUp(offset, kLaunchAlignment) + kLaunchWordBytes > kMostParamBytes) {
      return Refuse(function_.line, "too many bytes of parameters");
    }
    // Parameters begin at a multiple of 16 only, and where one lies that wants more is the
    // compiler's business: such ones cannot be found by their addresses.
    const bool is_known = std::all_of(
        flat_.params.begin(), flat_.params.end(),
        [](const Variable& param) { return ptx::VariableAlignment(param) <= kParameterAlignment; });
    flat_.param_bytes = is_known ? offset : 0;
    uint64_t result_offset = 0;
    for (const Variable& variable : function_.results) {
      const absl::Status status =
          DeclareFormal(variable, Symbol::Kind::kResult, &result_offset, &flat_.results);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status DeclareFormal(const Variable& variable, Symbol::Kind kind, uint64_t* offset,
                             std::vector<Variable>* list) {
    if (variable.space != "param") return Refuse(variable.line, "a parameter that is a register");
    if (variable.type.empty()) return Refuse(variable.line, "a parameter without a type");
    Variable copy = variable;
    // What a pointer is said to point to is the tenant's word.
    copy.is_pointer = false;
    copy.pointer_space.clear();
    copy.name = Rename(variable.name, 0);
    Symbol symbol;
    symbol.kind = kind;
    if (!SizeOf(variable, &symbol.bytes)) return Refuse(variable.line, "too large a parameter");
    if (variable.is_pointer) copy.alignment = 0;
    *offset = ptx::AlignUp(*offset, ptx::VariableAlignment(copy));
    symbol.offset = *offset;
    *offset += symbol.bytes;
    if (*offset > kMostParamBytes) return Refuse(variable.line, "too many bytes of parameters");
    scopes_[0].names[variable.name] = copy.name;
    const absl::Status status = Add(copy, copy.name, symbol);
    list->push_back(std::move(copy));
    return status;
  }

  absl::Status Take(const ptx::Statement&, const ptx::OpenBlock&) {
    Scope scope;
    scope.id = ++next_scope_;
    scopes_.push_back(std::move(scope));
    return absl::OkStatus();
  }
  absl::Status Take(const ptx::Statement&, const ptx::CloseBlock&) {
    scopes_.pop_back();
    return absl::OkStatus();
  }
  absl::Status Take(const ptx::Statement& statement, const ptx::TargetList&) {
    return Refuse(statement.line, "a list of targets of indirect branches or calls");
  }
  absl::Status Take(const ptx::Statement& statement, const ptx::Prototype&) {
    return Refuse(statement.line, "a prototype for indirect calls");
  }
  absl::Status Take(const ptx::Statement& statement, const ptx::Pragma& pragma) {
    // Others change what the compiler takes for granted.
    if (pragma.text == "nounroll") flat_.code.push_back(statement);
    return absl::OkStatus();
  }
  absl::Status Take(const ptx::Statement& statement, const ptx::Label& label) {
    const std::string name = Rename(label.name, scopes_.back().id);
    if (!flat_.labels.insert(name).second || flat_.Find(name) != nullptr) {
      return Refuse(statement.line, absl::StrCat(name, " is declared twice"));
    }
    flat_.code.push_back({ptx::Label{name}, statement.line});
    return absl::OkStatus();
  }

  absl::Status Take(const ptx::Statement& statement, const Variable& variable) {
    Scope& scope = scopes_.back();
    Variable copy = variable;
    copy.line = statement.line;
    copy.name = Rename(variable.name, scope.id);
    if (variable.register_count != 0 && copy.name != variable.name) copy.name += "_";
    Symbol symbol;
    if (variable.space == "reg") {
      if (variable.vector_width != 1) return Refuse(statement.line, "a vector of registers");
    } else if (!variable.init.empty() || !variable.linkage.empty()) {
      return Refuse(statement.line, "a variable of a function with linkage or initialiser");
    } else if (!SizeOf(variable, &symbol.bytes) || symbol.bytes == 0) {
      return Refuse(statement.line, "a variable of a function without a size, or too large");
    }
    if (variable.space == "local") {
      symbol.kind = Symbol::Kind::kLocal;
      const uint64_t alignment = ptx::VariableAlignment(variable);
      if (alignment > kLocalAlignment) return Refuse(statement.line, "too large an alignment");
      symbol.offset = ptx::AlignUp(flat_.local_bytes, alignment);
      flat_.local_bytes = symbol.offset + symbol.bytes;
      if (flat_.local_bytes > kMostLocalBytes) return Refuse(statement.line, "too large locals");
    } else if (variable.space == "param") {
      symbol.kind = Symbol::Kind::kArgument;
    } else if (variable.space == "shared") {
      symbol.kind = Symbol::Kind::kShared;
      symbol.alignment = ptx::VariableAlignment(variable);
    } else if (variable.space != "reg") {
      return Refuse(statement.line, absl::StrCat("a .", variable.space, " variable of a function"));
    }
    if (variable.register_count != 0) {
      scope.ranges.push_back({variable.name, variable.register_count, copy.name});
    } else if (!scope.names.emplace(variable.name, copy.name).second) {
      return Refuse(statement.line, absl::StrCat(variable.name, " is declared twice"));
    }
    const bool is_local = symbol.kind == Symbol::Kind::kLocal;
    const absl::Status status = Add(copy, copy.name, std::move(symbol));
    if (!is_local) flat_.declarations.push_back(std::move(copy));
    return status;
  }

  absl::Status Take(const ptx::Statement& statement, const ptx::Instruction& instruction) {
    ptx::Statement copy = statement;
    auto& node = std::get<ptx::Instruction>(copy.node);
    if (!node.guard.empty()) Resolve(&node.guard);
    const bool branches = instruction.opcode == "bra";
    const bool calls = instruction.opcode == "call";
    for (Operand& operand : node.operands) {
      if (branches) {
        ResolveLabel(&operand.name);
      } else {
        Resolve(&operand);
      }
      if (calls && operand.kind == Operand::Kind::kName && flat_.Find(operand.name) == nullptr) {
        const std::string_view ours = RuntimeFunctionFor(operand.name);
        if (!ours.empty()) operand.name = ours;
      }
    }
    flat_.code.push_back(std::move(copy));
    return absl::OkStatus();
  }

  void Resolve(Operand* operand) {
    if (!operand->name.empty()) Resolve(&operand->name);
    for (Operand& element : operand->elements) Resolve(&element);
  }

  // Leaves names alone that no block declares: those of the module, and special registers.
  void Resolve(std::string* name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->names.find(*name); found != scope->names.end()) {
        *name = found->second;
        return;
      }
      for (const Scope::Range& range : scope->ranges) {
        if (InRange(*name, range.prefix, range.count)) {
          if (range.renamed != range.prefix) {
            *name = absl::StrCat(range.renamed, name->substr(range.prefix.size()));
          }
          return;
        }
      }
    }
  }

  void ResolveLabel(std::string* name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto labels = labels_.find(scope->id);
      if (labels != labels_.end() && labels->second.contains(*name)) {
        *name = Rename(*name, scope->id);
        return;
      }
    }
  }

  const ptx::Function& function_;
  const std::unordered_set<std::string>& module_names_;
  FlatFunction& flat_;
  std::vector<Scope> scopes_;
  uint32_t next_scope_ = 0;
  std::unordered_map<uint32_t, std::unordered_set<std::string>> labels_;
};

}  // namespace

const Symbol* FlatFunction::Find(std::string_view name) const {
  if (const auto found = names.find(std::string(name)); found != names.end()) {
    return &found->second;
  }
  for (const Range& range : ranges) {
    if (InRange(name, range.prefix, range.count)) return &range.symbol;
  }
  return nullptr;
}

absl::StatusOr<FlatFunction> Flatten(const ptx::Function& function,
                                     const std::unordered_set<std::string>& module_names) {
  FlatFunction flat;
  const absl::Status status = Flattener(function, module_names, &flat).Run();
  if (!status.ok()) return status;
  return flat;
}

}  // namespace warpline::guard
