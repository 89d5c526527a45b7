#include "server/device/cpu/lowering/scopes.h"

#include <algorithm>
#include <string_view>
#include <variant>

#include "absl/strings/str_cat.h"
#include "ptx/types.h"
#include "server/device/cpu/lowering/operand_code.h"

namespace warpline::cpu {

bool Scopes::Start() {
  code_.set_line(function_.line.number);
  if (!FindLabels()) return false;
  scopes_.emplace_back();
  next_scope_ = 1;
  if (!function_.is_entry) return DeclareFormals();
  DeclareParams();
  return true;
}

bool Scopes::FindLabels() {
  // Labels belong to their block and may be used before they appear.
  std::vector<uint32_t> open = {0};
  scope_parents_ = {0};
  for (const ptx::Statement& statement : function_.body) {
    if (std::holds_alternative<ptx::OpenBlock>(statement.node)) {
      scope_parents_.push_back(open.back());
      open.push_back(static_cast<uint32_t>(scope_parents_.size() - 1));
    } else if (std::holds_alternative<ptx::CloseBlock>(statement.node)) {
      open.pop_back();
    } else if (const auto* label = std::get_if<ptx::Label>(&statement.node)) {
      if (!label_pcs_.emplace(LabelKey(open.back(), label->name), UINT32_MAX).second) {
        code_.set_line(statement.line.number);
        return code_.Invalid("label defined twice");
      }
    }
  }
  return true;
}

void Scopes::DeclareParams() {
  uint64_t total;
  const std::vector<ptx::Placement> places = ptx::PlaceInOrder(function_.params, &total);
  for (size_t i = 0; i < places.size(); ++i) {
    Symbol symbol;
    symbol.kind = Symbol::Kind::kParam;
    symbol.offset = places[i].offset;
    symbol.bytes = places[i].bytes;
    scopes_[0].names[function_.params[i].name] = symbol;
  }
}

bool Scopes::DeclareFormals() {
  const Formals formals = LayOutFormals(function_);
  code_.ReserveFrame(formals.slot_bytes);
  local_top_ = local_bytes_ = formals.local_bytes;
  if (local_top_ > kMaxLocalBytes) return code_.Invalid("parameters too large");
  const auto declare = [&](const std::vector<ptx::Variable>& variables,
                           const std::vector<Formal>& places) {
    for (size_t i = 0; i < variables.size(); ++i) {
      Symbol symbol;
      symbol.kind = places[i].is_register ? Symbol::Kind::kRegister : Symbol::Kind::kLocal;
      TypeWidth(variables[i].type, &symbol.width);
      symbol.slot = places[i].at;
      symbol.offset = places[i].at;
      symbol.bytes = places[i].bytes;
      scopes_[0].names[variables[i].name] = symbol;
    }
  };
  declare(function_.results, formals.results);
  declare(function_.params, formals.params);
  return true;
}

void Scopes::OpenBlock() {
  Scope scope;
  scope.id = next_scope_++;
  scope.local_top = local_top_;
  scopes_.push_back(std::move(scope));
}

void Scopes::CloseBlock() {
  local_top_ = scopes_.back().local_top;
  scopes_.pop_back();
}

bool Scopes::Declare(const ptx::Variable& variable) {
  Scope& scope = scopes_.back();
  if (variable.space == "reg") {
    Width width;
    if (!TypeWidth(variable.type, &width)) {
      return code_.Unsupported(absl::StrCat(".reg .", variable.type));
    }
    if (variable.register_count != 0) {
      scope.ranges.push_back(
          {variable.name, variable.register_count, width, variable.vector_width});
      return true;
    }
    Symbol symbol;
    symbol.width = width;
    symbol.vector_width = variable.vector_width;
    symbol.slot = code_.NewSlot(width);
    for (uint32_t i = 1; i < variable.vector_width; ++i) code_.NewSlot(width);
    scope.names[variable.name] = symbol;
    return true;
  }
  Symbol symbol;
  symbol.bytes = ptx::VariableBytes(variable);
  symbol.element_bytes =
      static_cast<uint32_t>(ptx::TypeBytes(variable.type)) * variable.vector_width;
  if (variable.space == "shared") {
    const auto it = kernel_.shared_offsets.find(&variable);
    if (it == kernel_.shared_offsets.end()) return code_.Invalid("shared variable without a place");
    symbol.kind = Symbol::Kind::kShared;
    symbol.offset = it->second;
  } else if (variable.space == "local" || variable.space == "param") {
    if (symbol.bytes > kMaxLocalBytes) return code_.Unsupported("local variable too large");
    symbol.kind = Symbol::Kind::kLocal;
    symbol.offset =
        ptx::AlignUp(local_top_, std::min<uint64_t>(ptx::VariableAlignment(variable), 16));
    local_top_ = symbol.offset + symbol.bytes;
    if (local_top_ > kMaxLocalBytes) return code_.Unsupported("too much local memory");
    local_bytes_ = std::max(local_bytes_, static_cast<uint32_t>(local_top_));
  } else {
    return code_.Unsupported(absl::StrCat("variable in .", variable.space, " inside a function"));
  }
  scope.names[variable.name] = symbol;
  return true;
}

const Symbol* Scopes::Find(const std::string& name) {
  // %r12: prefix and index of a range, if there is no such name by itself.
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto it = scope->names.find(name);
    if (it != scope->names.end()) return &it->second;
    if (digits == name.size() || name.size() - digits > 9) continue;
    const auto index = static_cast<uint32_t>(std::stoul(name.substr(digits)));
    if (name[digits] == '0' && name.size() - digits > 1) continue;
    for (const Range& range : scope->ranges) {
      if (index >= range.count || std::string_view(name).substr(0, digits) != range.prefix) {
        continue;
      }
      Symbol symbol;
      symbol.width = range.width;
      symbol.vector_width = range.vector_width;
      symbol.slot = code_.NewSlot(range.width);
      for (uint32_t i = 1; i < range.vector_width; ++i) code_.NewSlot(range.width);
      return &scope->names.emplace(name, symbol).first->second;
    }
  }
  return nullptr;
}

void Scopes::PlaceLabel(const std::string& label) {
  label_pcs_[LabelKey(scopes_.back().id, label)] = static_cast<uint32_t>(code_.ops().size());
}

void Scopes::BranchTo(const std::string& label) {
  branches_.emplace_back(code_.ops().size(), LabelKey(scopes_.back().id, label));
}

bool Scopes::BindLabels() {
  for (auto& [op, key] : branches_) {
    code_.set_line(code_.ops()[op].line);
    // From the branch's block outwards.
    for (uint32_t scope = key.first;; scope = scope_parents_[scope]) {
      const auto it = label_pcs_.find(LabelKey(scope, key.second));
      if (it != label_pcs_.end()) {
        code_.ops()[op].target = it->second;
        break;
      }
      if (scope == 0) return code_.Invalid(absl::StrCat("unknown label ", key.second));
    }
  }
  return true;
}

}  // namespace warpline::cpu
