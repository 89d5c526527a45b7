#include "guard/verify/names.h"

#include <array>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"

namespace warpline::guard {
namespace {

constexpr size_t kMostDigits = 10;  // Of the number of a register

constexpr std::pair<std::string_view, std::string_view> kGuardRegisters[] = {
    {"wlg_base", "b32"},   {"wlg_smem", "b32"},  {"wlg_globals", "b64"}, {"wlg_consts", "b64"},
    {"wlg_params", "b64"}, {"wlg_local", "b64"}, {"wlg_lo", "b32"},      {"wlg_hi", "b32"},
    {"wlg_s", "b32"},      {"wlg_t", "b32"},     {"wlg_stride", "b32"},  {"wlg_x", "b64"},
    {"wlg_off", "b64"},    {"wlg_at", "b64"},    {"wlg_ps", "pred"},     {"wlg_pl", "pred"},
    {"wlg_n", "b32"},      {"wlg_g0", "b32"},    {"wlg_g1", "b32"},      {"wlg_g2", "b32"},
    {"wlg_g3", "b32"},     {"wlg_pu", "pred"},   {"wlg_live", "b32"},    {"wlg_passes", "b32"},
    {"wlg_tid", "b32"},
};

constexpr std::string_view kVectorRegisters[] = {"%tid", "%ntid", "%ctaid", "%nctaid"};

constexpr std::string_view kScalarRegisters[] = {
    "%laneid",          "%warpid",         "%nwarpid",
    "%lanemask_eq",     "%lanemask_le",    "%lanemask_lt",
    "%lanemask_ge",     "%lanemask_gt",    "%smid",
    "%nsmid",           "%gridid",         "%clock",
    "%clock_hi",        "%clock64",        "%globaltimer",
    "%globaltimer_lo",  "%globaltimer_hi", "%dynamic_smem_size",
    "%total_smem_size", "%aggr_smem_size",
};

}  // namespace

bool Scope::Declare(std::string_view name, const Name& value) {
  const Name* match = nullptr;
  if (Matches(name, &match) != 0) return false;
  return names_.emplace(name, value).second;
}

bool Scope::DeclareRange(std::string_view prefix, int64_t count, std::string_view type) {
  return ranges_.emplace(prefix, Range{count, {.type = type}}).second;
}

const Name* Scope::Find(std::string_view name) const {
  const Name* match = nullptr;
  return Matches(name, &match) == 1 ? match : nullptr;
}

int Scope::Matches(std::string_view name, const Name** match) const {
  int matches = outer_ == nullptr ? 0 : outer_->Matches(name, match);
  if (const auto found = names_.find(name); found != names_.end()) {
    *match = &found->second;
    ++matches;
  }
  // What stands before all digits at the end may be the prefix of a range.
  size_t digits = 0;
  while (digits < name.size() && absl::ascii_isdigit(name[name.size() - digits - 1])) ++digits;
  if (digits == 0 || digits > kMostDigits) return matches;
  const size_t start = name.size() - digits;
  if (name[start] == '0' && digits > 1) return matches;
  const auto found = ranges_.find(name.substr(0, start));
  if (found == ranges_.end()) return matches;
  int64_t number = 0;
  for (const char digit : name.substr(start)) number = number * 10 + (digit - '0');
  if (number >= found->second.count) return matches;
  *match = &found->second.value;
  return matches + 1;
}

bool IsGuardName(std::string_view name) { return name.starts_with("wlg_"); }

bool IsJoinedLabel(std::string_view name) {
  Cursor cursor(name);
  int64_t number = 0;
  return cursor.Skip("wlg_w") && cursor.Count(&number) && cursor.AtEnd();
}

std::string_view GuardRegisterType(std::string_view name) {
  for (const auto& [guard, type] : kGuardRegisters) {
    if (name == guard) return type;
  }
  return {};
}

bool IsInteger32(std::string_view type) { return type == "b32" || type == "u32" || type == "s32"; }
bool IsInteger64(std::string_view type) { return type == "b64" || type == "u64" || type == "s64"; }

Refusal CheckTenantName(std::string_view name) {
  if (IsGuardName(name)) return "a guard's name that is not used in this way";
  if (name == "WARP_SZ") return "a reserved name";
  if (name.empty() || name[0] != '%') return {};
  size_t letters = 0;
  while (letters + 1 < name.size() && absl::ascii_isalpha(name[letters + 1])) ++letters;
  const std::string_view stem = name.substr(1, letters);
  if (letters == 0 || letters > 3 || stem == "tid" || stem == "pm") {
    return "a name that a special register may have";
  }
  return {};
}

Refusal CheckFunctionName(std::string_view name) {
  if (name.starts_with("%")) return "a function's name begins with %";
  if (name.starts_with("__cuda") || name == "vprintf" || name == "__assertfail" ||
      name == "malloc" || name == "free") {
    return "a function's name that ptxas may have for itself";
  }
  return CheckTenantName(name);
}

bool IsReadableSpecialRegister(std::string_view name, std::string_view component) {
  if (component.empty() && absl::c_linear_search(kScalarRegisters, name)) return true;
  const bool is_component =
      component.empty() ||
      (component.size() == 1 && std::string_view("xyzw").find(component) != std::string_view::npos);
  return is_component && absl::c_linear_search(kVectorRegisters, name);
}

}  // namespace warpline::guard
