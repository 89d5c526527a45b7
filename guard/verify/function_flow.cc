// Whether what an instruction reads has surely been written.
#include "absl/algorithm/container.h"
#include "guard/verify/function.h"

namespace warpline::guard {
namespace {

// The guard registers that hold something from the prologue on.
constexpr std::string_view kSetOnce[] = {"wlg_base",   "wlg_smem",  "wlg_globals", "wlg_consts",
                                         "wlg_params", "wlg_local", "wlg_n",       "wlg_live"};

constexpr Refusal kUnwritten = "something is read that may not have been written";

}  // namespace

Refusal FunctionVerifier::FollowInstruction(const Description& description) {
  if (description.rule == Rule::kBranch) {
    if (Refusal refusal = FollowOperands(false); !refusal.empty()) return refusal;
    const Refusal refusal = written_.BranchTo(instruction_.operands[0].name);
    if (!instruction_.has_predicate) written_.EndPath();
    return refusal;
  }
  if (description.rule == Rule::kCall) return FollowCall();
  if (Refusal refusal = FollowParameters(description); !refusal.empty()) return refusal;
  if (Refusal refusal = FollowOperands(description.writes_first); !refusal.empty()) return refusal;
  const bool returns = instruction_.opcode == "ret";
  if (returns) {
    if (Refusal refusal = FollowReturn(); !refusal.empty()) return refusal;
  }
  if ((returns || instruction_.opcode == "exit") && !instruction_.has_predicate) {
    written_.EndPath();
  }
  return {};
}

Refusal FunctionVerifier::FollowOperands(bool writes_first) {
  if (instruction_.has_predicate && !written_.Has(instruction_.predicate)) return kUnwritten;
  for (size_t i = writes_first ? 1 : 0; i < instruction_.operands.size(); ++i) {
    if (Refusal refusal = CheckWritten(instruction_.operands[i]); !refusal.empty()) return refusal;
  }
  // What is written under a condition may not be.
  if (writes_first && !instruction_.has_predicate && !instruction_.operands.empty()) {
    NoteWritten(instruction_.operands[0]);
  }
  return {};
}

Refusal FunctionVerifier::CheckWritten(const Operand& operand) const {
  for (const Operand& element : instruction_.ElementsOf(operand)) {
    if (Refusal refusal = CheckWritten(element); !refusal.empty()) return refusal;
  }
  if (operand.kind != Operand::Kind::kName && operand.kind != Operand::Kind::kAddress) return {};
  const Name* const name = scope_.Find(operand.name);
  if (name == nullptr || name->kind != Name::Kind::kRegister) return {};
  return written_.Has(operand.name) ? Refusal() : kUnwritten;
}

void FunctionVerifier::NoteWritten(const Operand& operand) {
  for (const Operand& element : instruction_.ElementsOf(operand)) NoteWritten(element);
  if (operand.kind != Operand::Kind::kName) return;
  const bool is_step = IsGuardName(operand.name) && !absl::c_linear_search(kSetOnce, operand.name);
  written_.Write(operand.name, /*is_passing=*/is_step);
}

// Parameters of calls and results are like registers: ptxas keeps them in some.
Refusal FunctionVerifier::FollowParameters(const Description& description) {
  const Access& access = description.accesses[0];
  if (description.rule != Rule::kMemory || access.space != Space::kParam) return {};
  const Operand& address = instruction_.operands[access.operand];
  const Name* const name = scope_.Find(address.name);
  if (name == nullptr ||
      (name->kind != Name::Kind::kResult && name->kind != Name::Kind::kBodyParameter)) {
    return {};
  }
  if (!access.writes) {
    return written_.HasBytes(address.name, address.value, access.bytes) ? Refusal() : kUnwritten;
  }
  if (!instruction_.has_predicate) {
    written_.WriteBytes(address.name, address.value, access.bytes,
                        name->kind == Name::Kind::kBodyParameter);
  }
  return {};
}

Refusal FunctionVerifier::FollowCall() {
  if (instruction_.has_predicate && !written_.Has(instruction_.predicate)) return kUnwritten;
  const auto& operands = instruction_.operands;
  const bool has_results = operands[0].kind == Operand::Kind::kList;
  for (size_t i = has_results ? 1 : 0; i < operands.size(); ++i) {
    if (operands[i].kind != Operand::Kind::kList) continue;
    for (const Operand& argument : instruction_.ElementsOf(operands[i])) {
      const int64_t bytes = scope_.Find(argument.name)->bytes;
      if (!written_.HasBytes(argument.name, 0, bytes)) return kUnwritten;
    }
    // The callee may have changed them.
    for (const Operand& argument : instruction_.ElementsOf(operands[i])) {
      written_.ForgetBytes(argument.name, scope_.Find(argument.name)->bytes);
    }
  }
  if (!has_results || instruction_.has_predicate) return {};
  for (const Operand& result : instruction_.ElementsOf(operands[0])) {
    written_.WriteBytes(result.name, 0, scope_.Find(result.name)->bytes, /*is_passing=*/true);
  }
  return {};
}

Refusal FunctionVerifier::FollowReturn() const {
  for (const Variable& result : function_.head.results) {
    if (!written_.HasBytes(result.name, 0, result.Bytes())) {
      return "a result that may not have been written";
    }
  }
  return {};
}

}  // namespace warpline::guard
