// The declarations of a function: its parameters, and what its body declares.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "guard/verify/function.h"

namespace warpline::guard {
namespace {

constexpr int64_t kMostLocals = 512 << 10;  // Bytes of wlg_locals
// ptxas takes a hundred bytes and more for each of these.
constexpr int64_t kMostRegistersInSum = int64_t{1} << 18;
constexpr int64_t kParameterBaseAlignment = 16;
constexpr int64_t kMostBodyParameterBytes = int64_t{16} << 20;

// Nothing but the guard's statements names this parameter.
bool IsLaunchWords(const Variable& parameter) {
  return parameter.name == "wlg_launch" && parameter.type == "b8" && parameter.alignment == 8 &&
         parameter.is_array && parameter.elements == 32;
}

}  // namespace

Refusal FunctionVerifier::DeclareParameters() {
  const Head& head = function_.head;
  absl::Span<const Variable> parameters = head.parameters;
  int64_t bytes = 0;
  if (Refusal refusal = MeasureParameters(parameters, &bytes); !refusal.empty()) return refusal;
  if (head.is_entry) {
    if (parameters.empty() || !IsLaunchWords(parameters.back())) {
      return "the parameter wlg_launch is missing";
    }
    parameters.remove_suffix(1);
    if (Refusal refusal = MeasureParameters(parameters, &bytes); !refusal.empty()) return refusal;
  }
  // Parameters begin at a multiple of 16: where one lies that wants more is not known.
  const bool is_known = std::all_of(
      parameters.begin(), parameters.end(),
      [](const Variable& parameter) { return parameter.Alignment() <= kParameterBaseAlignment; });
  if (head.is_entry) limits_.parameters = is_known ? bytes : 0;
  const bool has_depot = !head.is_entry && module_.locals != 0;
  if (has_depot && parameters.empty()) return "the parameter wlg_depot is missing";
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Variable& parameter = parameters[i];
    if (has_depot && i == 0) {
      if (parameter.name != "wlg_depot" || parameter.type != "b64" || parameter.is_array ||
          parameter.alignment != 0) {
        return "the parameter wlg_depot is missing";
      }
    } else if (Refusal refusal = CheckTenantName(parameter.name); !refusal.empty()) {
      return refusal;
    }
    const Name::Kind kind =
        head.is_entry ? Name::Kind::kEntryParameter : Name::Kind::kFunctionParameter;
    if (!scope_.Declare(parameter.name, parameter.Named(kind))) return "a name is declared twice";
  }
  for (const Variable& result : head.results) {
    if (result.Bytes() > kMostParameterBytes) return "too many bytes of results";
    if (Refusal refusal = CheckTenantName(result.name); !refusal.empty()) return refusal;
    if (!scope_.Declare(result.name, result.Named(Name::Kind::kResult))) {
      return "a name is declared twice";
    }
  }
  return {};
}

Refusal FunctionVerifier::VerifyDeclaration(std::string_view line) {
  if (!declares_) return "a declaration stands behind statements";
  Cursor cursor(line);
  Variable variable;
  if (!cursor.Skip("\t")) return "a malformed declaration";
  if (Refusal refusal = ReadVariable(&cursor, &variable); !refusal.empty()) return refusal;
  if (!cursor.Skip(";") || !cursor.AtEnd()) return "something follows the declaration";
  if (!variable.linkage.empty()) return "a declaration with a linkage in a body";
  return variable.space == "reg" ? DeclareRegisters(variable) : DeclareVariable(variable);
}

Refusal FunctionVerifier::DeclareRegisters(const Variable& variable) {
  if (variable.is_array || variable.alignment != 0) return "a malformed register";
  registers_ += std::max<int64_t>(variable.registers, 1);
  if (registers_ > kMostRegistersInSum) return "too many registers";
  const std::string_view guard_type = GuardRegisterType(variable.name);
  if (!guard_type.empty()) {
    if (variable.type != guard_type || variable.registers != 0) {
      return "a guard register is not declared so";
    }
  } else if (Refusal refusal = CheckTenantName(variable.name); !refusal.empty()) {
    return refusal;
  }
  // ptxas would not find %r12 of .reg .b32 %r1<3>.
  if (variable.registers != 0 && absl::ascii_isdigit(variable.name.back())) {
    return "a prefix of registers that ends in a digit";
  }
  const bool is_new =
      variable.registers != 0
          ? scope_.DeclareRange(variable.name, variable.registers, variable.type)
          : scope_.Declare(variable.name, {.kind = Name::Kind::kRegister, .type = variable.type});
  return is_new ? Refusal() : "a name is declared twice";
}

Refusal FunctionVerifier::DeclareVariable(const Variable& variable) {
  Name::Kind kind = Name::Kind::kBodyParameter;
  if (variable.type == "pred") return "a variable of type .pred";
  if (variable.is_array && variable.elements == 0) return "a variable without a size in a body";
  if (variable.space == "local") {
    if (variable.name != "wlg_locals" || !limits_.is_entry || variable.alignment != 16 ||
        variable.type != "b8" || !variable.is_array || variable.elements % 16 != 0 ||
        variable.elements > kMostLocals || variable.elements != module_.locals) {
      return "a variable in space .local that is not the entries' wlg_locals";
    }
    kind = Name::Kind::kLocals;
  } else if (variable.space == "param" && variable.name == "wlg_pass") {
    if (variable.type != "b64" || variable.is_array || variable.alignment != 0 ||
        module_.locals == 0) {
      return "wlg_pass is not declared so";
    }
  } else if (Refusal refusal = CheckTenantName(variable.name); !refusal.empty()) {
    return refusal;
  } else if (variable.space == "shared") {
    kind = Name::Kind::kShared;
  } else if (variable.space != "param") {
    return "a variable in a space that a body may not declare";
  }
  if (variable.space == "param") {
    parameter_bytes_ += variable.Bytes();
    if (variable.Bytes() > kMostParameterBytes || parameter_bytes_ > kMostBodyParameterBytes) {
      return "too many bytes of parameters";
    }
  }
  const bool is_new = scope_.Declare(variable.name, variable.Named(kind));
  return is_new ? Refusal() : "a name is declared twice";
}

}  // namespace warpline::guard
