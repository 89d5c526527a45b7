#include "guard/verify/verify.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "guard/verify/entry_poll.h"
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

// A thread asks whether to stop after so many instructions at the latest.
constexpr int64_t kMostBetweenPolls = int64_t{1} << 26;

// The functions, each before whom it calls. Those that may come to call themselves are missing.
std::vector<size_t> InOrder(const std::vector<FunctionFacts>& functions) {
  std::vector<size_t> callers(functions.size(), 0);
  for (const FunctionFacts& function : functions) {
    for (const size_t callee : function.callees) ++callers[callee];
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < callers.size(); ++i) {
    if (callers[i] == 0) order.push_back(i);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (const size_t callee : functions[order[i]].callees) {
      if (--callers[callee] == 0) order.push_back(callee);
    }
  }
  return order;
}

// What is true of a function only together with those that it calls.
Finding VerifyTogether(const Module& module, std::vector<FunctionFacts>* functions) {
  const std::vector<size_t> order = InOrder(*functions);
  if (order.size() != functions->size()) {
    return {module.functions.back().line, "functions that call each other in a circle"};
  }
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    FunctionFacts& function = (*functions)[*at];
    const Function& text = module.functions[*at];
    for (const size_t callee : function.callees) {
      function.instructions = std::min(function.instructions + (*functions)[callee].instructions,
                                       kMostBetweenPolls + 1);
      function.uses_shared = function.uses_shared || (*functions)[callee].uses_shared;
      function.barriers.Include((*functions)[callee].barriers);
    }
    // Those of others never meet them: a block executes one kernel.
    if (Finding finding = function.barriers.Verify(); !finding.refusal.empty()) return finding;
    const int64_t iterations = std::max<int64_t>(function.iterations, 1);
    const Policy& policy = module.policy;
    if (policy.hardened && policy.stops && function.instructions > kMostBetweenPolls / iterations) {
      return {text.line, "too many instructions before it asks whether to stop"};
    }
    // A thread of a block that has begun asks, or ends, after its first iterations and one more for
    // the loop in which it asks. A function that is called asks before it goes round a loop.
    const int64_t passes = function.first_iterations + 1;
    if (function.unasked_blocks >
        kMostUnasked / std::max<int64_t>(function.instructions * passes, 1)) {
      return {text.line, "too many blocks that do not ask whether to stop"};
    }
    if (policy.hardened && policy.zeroes && text.head.is_entry && function.uses_shared &&
        !function.zeroes_shared) {
      return {text.line, "shared memory is used that has not been zeroed"};
    }
  }
  return {};
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
  std::vector<FunctionFacts> facts(module.functions.size());
  for (size_t i = 0; i < module.functions.size(); ++i) {
    FunctionVerifier verifier(module, module.functions[i]);
    const Finding finding = verifier.Verify(&facts[i]);
    if (!finding.refusal.empty()) return Refuse(finding.line, finding.refusal);
  }
  const Finding finding = VerifyTogether(module, &facts);
  return finding.refusal.empty() ? absl::OkStatus() : Refuse(finding.line, finding.refusal);
}

}  // namespace warpline::guard
