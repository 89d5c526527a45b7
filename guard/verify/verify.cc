#include "guard/verify/verify.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "guard/verify/function.h"
#include "guard/verify/module.h"
#include "guard/verify/reader.h"

namespace warpline::guard {
namespace {

constexpr size_t kMostShown = 200;  // Characters of a line in a message

absl::Status Refuse(const Line& line, Refusal refusal) {
  const std::string shown(line.text.substr(0, kMostShown));
  return absl::InvalidArgumentError(absl::StrCat("line ", line.number, ": ", std::string(refusal),
                                                 ": ", absl::CHexEscape(shown)));
}

// Whether no function can come to call itself. `callees` are the functions that each one calls.
bool IsAcyclic(const std::vector<std::vector<size_t>>& callees) {
  std::vector<size_t> callers(callees.size(), 0);
  for (const auto& called : callees) {
    for (const size_t callee : called) ++callers[callee];
  }
  std::vector<size_t> uncalled;
  for (size_t i = 0; i < callers.size(); ++i) {
    if (callers[i] == 0) uncalled.push_back(i);
  }
  size_t taken = 0;
  while (!uncalled.empty()) {
    const size_t caller = uncalled.back();
    uncalled.pop_back();
    ++taken;
    for (const size_t callee : callees[caller]) {
      if (--callers[callee] == 0) uncalled.push_back(callee);
    }
  }
  return taken == callees.size();
}

}  // namespace

absl::Status Verify(std::string_view text, const Policy& policy) {
  if (policy.arena_bits < 32 || policy.arena_bits > 47) {
    return absl::InvalidArgumentError("arena_bits is not within 32 to 47");
  }
  Module module;
  module.policy = policy;
  ModuleReader reader(text, &module);
  if (Refusal refusal = reader.Read(); !refusal.empty()) return Refuse(reader.line(), refusal);
  std::vector<std::vector<size_t>> callees(module.functions.size());
  for (size_t i = 0; i < module.functions.size(); ++i) {
    FunctionVerifier verifier(module, module.functions[i]);
    const Finding finding = verifier.Verify(&callees[i]);
    if (!finding.refusal.empty()) return Refuse(finding.line, finding.refusal);
  }
  if (!IsAcyclic(callees)) {
    return Refuse(reader.line(), "functions that call each other in a circle");
  }
  return absl::OkStatus();
}

}  // namespace warpline::guard
