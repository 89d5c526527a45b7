#include "guard/rewrite/convergence.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "guard/rewrite/families.h"
#include "guard/rewrite/statements.h"
#include "ptx/instruction_set.h"

namespace warpline::guard {
namespace {

constexpr int kMostTries = 8;

}  // namespace

bool NeedsWholeWarps(const FlatFunction& function, bool at_barriers) {
  return std::any_of(
      function.code.begin(), function.code.end(), [at_barriers](const ptx::Statement& statement) {
        const auto* const instruction = std::get_if<ptx::Instruction>(&statement.node);
        ptx::Description what;
        return instruction != nullptr &&
               ptx::Describe(*instruction, &what) == ptx::Verdict::kKnown &&
               NeedsWholeWarp(what.row().family, at_barriers);
      });
}

Convergence::Convergence(const FlatFunction& function, bool at_barriers) {
  if (!NeedsWholeWarps(function, at_barriers)) return;
  uniform_.emplace(function);
  joined_ = function.labels;
}

bool Convergence::KeepsTogether(const ptx::Instruction& branch) const {
  return branch.guard.empty() || (uniform_.has_value() && uniform_->Contains(branch.guard));
}

bool Convergence::Settle() {
  const bool is_done = parted_.empty() && (is_of_use_ || joined_.empty());
  if (is_done) return true;
  for (const std::string& label : parted_) joined_.erase(label);
  // Votes that save no check are of no use.
  if (parted_.empty() || ++tries_ == kMostTries) joined_.clear();
  parted_.clear();
  is_of_use_ = false;
  return false;
}

void AddVote(std::string_view mode, std::string_view result, std::string_view predicate,
             bool negated, FenceWriter* code) {
  ptx::Operand source = Name(predicate);
  source.negated = negated;
  code->Add(Make(absl::StrCat("vote.sync.", std::string(mode), ".pred"),
                 {Name(code->Use(result)), std::move(source), Number(-1)}));
}

}  // namespace warpline::guard
