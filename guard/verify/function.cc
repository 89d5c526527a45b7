#include "guard/verify/function.h"

#include <iterator>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "guard/verify/weights.h"

namespace warpline::guard {
namespace {

constexpr std::string_view kPragma = "\t.pragma \"nounroll\";";
constexpr std::string_view kEndWhereStopping = "\t@wlg_ps exit;";
constexpr std::string_view kNap = "\tnanosleep.u32 wlg_t;";
constexpr Refusal kNapAlone = "a nap of the guard that is not a poll's";
constexpr std::string_view kOfAWarp[] = {"mma",      "wmma",      "ldmatrix",
                                         "stmatrix", "movmatrix", "wgmma"};
constexpr int64_t kLastBarrier = 15;
constexpr int64_t kMostThreads = 1024;  // Of a block
constexpr int64_t kLanes = 32;
constexpr Refusal kNotAsked = "a kernel whose blocks do not ask whether to stop where they begin";
constexpr Refusal kNotAwaited = "threads have not waited until shared memory is zero";
constexpr Refusal kOfFourWarps = "wgmma, which ends the context where a warp of its four has ended";
constexpr Refusal kMayPart = "a warp that may not be whole";
constexpr Refusal kIntoPasses = "a way into a loop that does not count one of its passes";
constexpr Refusal kNotZeroed = "a statement stands before those that zero wlg_locals";

// Whether an operand is a name and nothing else.
bool IsPlainName(const Operand& operand) {
  return operand.kind == Operand::Kind::kName && !operand.negated && operand.component.empty() &&
         operand.value == 0;
}

// Whether an instruction writes a guard register, for all that its operands say.
bool WritesGuard(const Instruction& instruction) {
  if (instruction.operands.empty()) return false;
  const Operand& first = instruction.operands[0];
  if (first.kind == Operand::Kind::kName) {
    return IsGuardName(first.name) && !IsJoinedLabel(first.name);
  }
  if (first.kind != Operand::Kind::kVector && first.kind != Operand::Kind::kPair) return false;
  for (const Operand& element : instruction.ElementsOf(first)) {
    if (IsGuardName(element.name)) return true;
  }
  return false;
}

}  // namespace

FunctionVerifier::FunctionVerifier(const Module& module, const Function& function)
    : module_(module),
      function_(function),
      scope_(&module.names),
      fences_(&limits_, &scope_, &alignments_) {
  limits_.policy = module.policy;
  limits_.target = module.target;
  limits_.locals = module.locals;
  limits_.constants = module.constants;
  limits_.is_entry = function.head.is_entry;
  limits_.is_wide = function.head.is_entry && !function.is_one_wide;
  const Policy& policy = module.policy;
  may_ask_ = policy.hardened && (policy.stops || policy.zeroes) && function.head.is_entry;
  asks_at_entry_ = may_ask_ && policy.stops;
  // The last one of an entry, wlg_launch, is no parameter of the tenant's.
  if (function.head.parameters.size() > (function.head.is_entry ? 1 : 0)) {
    limits_.first_parameter = function.head.parameters[0].name;
  }
}

Finding FunctionVerifier::Verify(FunctionFacts* facts) {
  facts_ = facts;
  if (Refusal refusal = DeclareParameters(); !refusal.empty()) return {function_.line, refusal};
  Lines lines(function_.body, function_.body_line);
  while (lines.Next()) {
    if (Refusal refusal = VerifyLine(lines.line()); !refusal.empty()) {
      return {lines.line(), refusal};
    }
  }
  if (asks_at_entry_ && !entry_poll_.is_complete()) return {function_.line, kNotAsked};
  if (written_.reachable()) {
    if (Refusal refusal = FollowReturn(); !refusal.empty()) return {lines.line(), refusal};
  }
  for (const Branch& branch : branches_) {
    const Name* const label = scope_.Find(branch.label);
    if (label == nullptr || label->kind != Name::Kind::kLabel) {
      return {branch.line, "not a label of this function"};
    }
  }
  facts_->iterations = fences_.iterations();
  facts_->first_iterations = fences_.first_iterations();
  facts_->unasked_blocks = entry_poll_.blocks();
  facts_->zeroes_shared = zeroing_.is_complete();
  // All threads of a block come to the barrier behind the zeroing before any comes to another one.
  if (zeroing_.is_complete()) facts_->barriers.Add({}, function_.line, true);
  return {};
}

// Nothing of a kernel that is to be stopped stands before its poll but the prologue, nor is there a
// way around it: nobody else can name the label that ends it.
Refusal FunctionVerifier::VerifyLine(const Line& line) {
  Refusal refusal;
  if (entry_poll_.Follow(line.text, may_ask_ && fences_.in_prologue(), &refusal)) {
    FollowOwn(line.text);
    fences_.Reset();
    return refusal;
  }
  if (refusal = VerifyBehindPoll(line); !refusal.empty()) return refusal;
  const bool is_early = asks_at_entry_ && !entry_poll_.is_complete() && !fences_.in_prologue();
  return is_early ? kNotAsked : Refusal();
}

Refusal FunctionVerifier::VerifyBehindPoll(const Line& line) {
  Refusal refusal = leaving_lanes_.Follow(line.text);
  if (!refusal.empty()) return refusal;
  if (lane_counting_.Follow(line.text, !has_begun_ && zeroing_.is_none(), &refusal)) {
    FollowOwn(line.text);
    fences_.Reset();
    if (lane_counting_.is_complete()) written_.Write("wlg_live", /*is_passing=*/false);
    return refusal;
  }
  const bool may_zero = !has_begun_ && entry_poll_.is_complete() && entry_poll_.places_threads() &&
                        LocalsAreZero() && fences_.prologue().smem;
  const bool was_awaited = zeroing_.is_awaited();
  if (zeroing_.Follow(line.text, may_zero, &refusal)) {
    FollowZeroing(line.text, was_awaited);
    return refusal;
  }
  if (refusal = loop_starts_.Follow(line.text); !refusal.empty()) return refusal;
  const bool passed = std::exchange(passed_, false);
  if (!line.text.empty() && line.text.back() == ':') return VerifyLabel(line.text);
  const bool is_pragma = line.text == kPragma;
  if (line.text.starts_with("\t.") && !is_pragma) return VerifyDeclaration(line.text);
  declares_ = false;
  if (!is_pragma) return VerifyInstruction(line, passed);
  fences_.EndPrologue();
  return {};
}

Refusal FunctionVerifier::VerifyLabel(std::string_view line) {
  if (zeroing_.is_awaited()) return kNotAwaited;
  declares_ = false;
  has_begun_ = true;
  Cursor cursor(line);
  std::string_view name;
  if (!cursor.Name(&name) || !cursor.Skip(":") || !cursor.AtEnd()) return "a malformed label";
  const bool is_joined = IsJoinedLabel(name);
  if (is_joined && written_.reachable() && !whole_warp_.is_whole()) return kMayPart;
  whole_warp_.PlaceLabel(is_joined);
  alignments_.Forget();
  if (!LocalsAreZero()) return kNotZeroed;
  fences_.Reset();
  const Refusal bad_name = is_joined ? Refusal() : CheckTenantName(name);
  if (!bad_name.empty()) return bad_name;
  if (!scope_.Declare(name, {.kind = Name::Kind::kLabel})) return "a name is declared twice";
  if (loop_starts_.CountsPasses(name) && targets_.contains(name)) return kIntoPasses;
  if (Refusal refusal = written_.PlaceLabel(name); !refusal.empty()) return refusal;
  // Whoever comes to such a label comes from where passes are set, or from its own run.
  if (loop_starts_.CountsPasses(name)) written_.Write("wlg_passes", /*is_passing=*/true);
  return {};
}

Refusal FunctionVerifier::VerifyInstruction(const Line& line, bool passed) {
  if (Refusal refusal = ReadInstruction(line.text, &instruction_); !refusal.empty()) return refusal;
  if (instruction_.has_predicate) {
    const Name* const name = scope_.Find(instruction_.predicate);
    if (name == nullptr || name->kind != Name::Kind::kRegister || name->type != "pred") {
      return "a predicate that is not declared";
    }
  }
  if (limits_.policy.hardened && instruction_.opcode == "wgmma") return kOfFourWarps;
  if (Refusal refusal = FollowWholeWarp(line); !refusal.empty()) return refusal;
  if (line.text == kNap) {
    // Until the next poll there is no other, so it does not count as others do.
    ++facts_->instructions;
    return fences_.Nap() ? FollowOperands(/*writes_first=*/false) : kNapAlone;
  }
  facts_->instructions += WeightOf(instruction_);
  if (WritesGuard(instruction_)) {
    if (instruction_.has_predicate) return "a guard's statement has a predicate";
    if (instruction_.opcode == "vote" && !whole_warp_.is_whole()) return kMayPart;
    if (Refusal refusal = fences_.Apply(instruction_.text); !refusal.empty()) return refusal;
    return FollowOperands(/*writes_first=*/true);
  }
  fences_.EndPrologue();
  if (!LocalsAreZero()) {
    const std::string offset = zeroed_ == 0 ? "" : absl::StrCat("+", zeroed_);
    if (instruction_.has_predicate ||
        instruction_.text !=
            absl::StrCat("st.local.v4.b32 [wlg_locals", offset, "], {0, 0, 0, 0}")) {
      return kNotZeroed;
    }
    zeroed_ += 16;
  } else {
    has_begun_ = true;
  }
  if (line.text == kEndWhereStopping) fences_.EndWhereStopping();
  if (instruction_.text.starts_with("st.param.b64 [wlg_pass], ")) return VerifyPass();
  Description description;
  if (Refusal refusal = Describe(instruction_, &description); !refusal.empty()) return refusal;
  if (limits_.policy.hardened && instruction_.opcode == "barrier") {
    if (Refusal refusal = VerifyBarrier(line); !refusal.empty()) return refusal;
  }
  constexpr std::string_view kAwaiting[] = {"bra", "call", "ret", "exit", "bar", "barrier"};
  if (zeroing_.is_awaited() && absl::c_linear_search(kAwaiting, instruction_.opcode)) {
    return kNotAwaited;
  }
  Refusal refusal;
  switch (description.rule) {
    case Rule::kMemory:
      refusal = VerifyMemory(description);
      break;
    case Rule::kMove:
      refusal = VerifyMove();
      break;
    case Rule::kCall:
      refusal = VerifyCall(passed);
      break;
    case Rule::kBranch:
      refusal = VerifyBranch(line);
      break;
    case Rule::kRegisters:
      for (size_t i = 0; i < instruction_.operands.size() && refusal.empty(); ++i) {
        refusal = VerifyPlain(i);
      }
      break;
  }
  if (limits_.policy.hardened) alignments_.Follow(instruction_);
  return refusal.empty() ? FollowInstruction(description) : refusal;
}

// ptxas takes the code behind such an instruction to be reached by all lanes together, and lets
// what it takes for the same in all of them share registers. So all must be there.
Refusal FunctionVerifier::FollowWholeWarp(const Line& line) {
  if (absl::c_linear_search(kOfAWarp, instruction_.opcode)) {
    if (!whole_warp_.is_whole()) return "an instruction of a warp that may not be whole";
    if (instruction_.has_predicate) return "an instruction of a warp with a predicate";
    if (lane_counting_.is_complete()) return "an instruction of a warp where lanes may be missing";
  }
  whole_warp_.Follow(line.text, instruction_, leaving_lanes_.is_exit());
  return {};
}

// A barrier that there is not ends the context, as does one for more threads than a block has or
// for a part of a warp. Which of them may stand together is another matter.
Refusal FunctionVerifier::VerifyBarrier(const Line& line) {
  constexpr std::string_view kKinds[] = {"sync", "arrive", "red"};
  BarrierForm form;
  int kinds = 0;
  for (const std::string_view modifier : instruction_.modifiers) {
    const auto* const kind = absl::c_find(kKinds, modifier);
    if (kind == std::end(kKinds)) continue;
    form.kind = static_cast<BarrierForm::Kind>(kind - std::begin(kKinds));
    ++kinds;
  }
  if (kinds != 1) return "a malformed barrier";
  const absl::Span<const Operand> numbers = BarrierNumbers(instruction_);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const bool is_literal = numbers[i].kind == Operand::Kind::kInteger;
    const int64_t value = numbers[i].value;
    (i == 0 ? form.number : form.threads) = value;
    if (i == 0 && !(is_literal && value >= 0 && value <= kLastBarrier)) {
      return "a barrier whose number is not a literal from 0 to 15";
    }
    if (i > 0 && !(is_literal && value > 0 && value <= kMostThreads && value % kLanes == 0)) {
      return "a barrier for threads that are not a literal multiple of 32 up to 1024";
    }
  }
  if (numbers.empty() || numbers.size() > 2) return "a malformed barrier";
  // One with a predicate leaves no warp whole.
  facts_->barriers.Add(form, line, whole_warp_.is_whole());
  return {};
}

void FunctionVerifier::FollowOwn(std::string_view line) {
  declares_ = false;
  fences_.EndPrologue();
  if (!line.ends_with(':')) ++facts_->instructions;
}

void FunctionVerifier::FollowZeroing(std::string_view line, bool awaits) {
  FollowOwn(line);
  if (awaits) {
    fences_.ForgetShared();
  } else {
    fences_.Reset();
  }
}

// A branch back, by which a loop is closed, is taken only where the thread has asked whether to
// stop, or has counted one of the iterations that it may make until it does.
Refusal FunctionVerifier::VerifyBranch(const Line& line) {
  const Operand& target = instruction_.operands[0];
  if (!IsPlainName(target)) return "not a label";
  branches_.push_back({line, target.name});
  if (IsJoinedLabel(target.name) && !whole_warp_.keeps_together()) return kMayPart;
  const Policy& policy = limits_.policy;
  const Name* const label = scope_.Find(target.name);
  if (label == nullptr) targets_.insert(target.name);
  if (!policy.hardened || !policy.stops || label == nullptr) return {};
  const bool if_some_are_left = line.text.starts_with("\t@wlg_pl bra ");
  if (loop_starts_.CountsPasses(target.name)) {
    const bool has_counted =
        if_some_are_left && fences_.now().may_pass && loop_starts_.IsInPass(target.name);
    return has_counted ? Refusal() : kIntoPasses;
  }
  const bool has_counted =
      if_some_are_left && fences_.now().may_iterate && loop_starts_.Counts(target.name);
  return has_counted || fences_.now().may_go_on ? Refusal() : "a loop that may not be stopped";
}

bool FunctionVerifier::LocalsAreZero() const {
  return zeroed_ >= limits_.locals || scope_.Find("wlg_locals") == nullptr;
}

// The statement before a call, which gives the callee this thread's wlg_locals.
Refusal FunctionVerifier::VerifyPass() {
  if (instruction_.has_predicate || instruction_.text != "st.param.b64 [wlg_pass], wlg_local") {
    return "wlg_pass is written by something else than the guard";
  }
  if (scope_.Find("wlg_pass") == nullptr) return "wlg_pass is not declared";
  if (!fences_.prologue().local) return "the prologue has not set wlg_local";
  passed_ = true;
  written_.WriteBytes("wlg_pass", 0, 8, /*is_passing=*/true);
  return {};
}

Refusal FunctionVerifier::VerifyMemory(const Description& description) {
  const Surroundings here = {limits_, scope_, fences_};
  const Access& access = description.accesses[0];
  size_t next = 0;
  for (size_t i = 0; i < instruction_.operands.size(); ++i) {
    if (next < description.count && description.accesses[next].operand == i) {
      const Access& checked = description.accesses[next++];
      if (checked.space == Space::kShared || checked.space == Space::kGeneric) {
        facts_->uses_shared = true;
        if (zeroing_.is_awaited()) return kNotAwaited;
      }
      Refusal refusal = CheckAccess(checked, instruction_.operands[i], here);
      if (!refusal.empty()) return refusal;
    } else if (Refusal refusal = VerifyPlain(i); !refusal.empty()) {
      return refusal;
    }
  }
  if (access.is_bulk || (access.is_matrix && instruction_.operands.size() == 3)) {
    const int64_t most = access.is_bulk ? kMostBulk : kMostStride;
    const Operand& extent = instruction_.operands[2];
    const bool is_literal =
        extent.kind == Operand::Kind::kInteger && extent.value >= 0 && extent.value <= most;
    const int64_t bound = fences_.now().stride_bound;
    const bool is_bounded =
        IsPlainName(extent) && extent.name == "wlg_stride" && bound != 0 && bound <= most;
    if (!is_literal && !is_bounded) return "a stride or size that is not bounded";
  }
  // A copy of fewer bytes than its size reads the end of its source, which is not aligned.
  if (description.count == 2 && !access.is_bulk && limits_.policy.hardened &&
      instruction_.operands.size() == 4) {
    const Operand& size = instruction_.operands[3];
    const Name* const name = scope_.Find(size.name);
    const bool is_literal =
        size.kind == Operand::Kind::kInteger && (size.value == 0 || size.value == access.bytes);
    const bool is_whole =
        IsPlainName(size) && size.name == "wlg_t" && fences_.now().part == access.bytes;
    if (!is_literal && !is_whole && (name == nullptr || name->type != "pred")) {
      return "a copy of a part that may not be aligned";
    }
  }
  return {};
}

// A move may take the address of what the tenant has declared, and of wlg_locals.
Refusal FunctionVerifier::VerifyMove() {
  if (Refusal refusal = VerifyPlain(0); !refusal.empty()) return refusal;
  const Operand& source = instruction_.operands[1];
  if (source.kind == Operand::Kind::kName && !source.negated && source.component.empty()) {
    const Name* const name = scope_.Find(source.name);
    if (name != nullptr &&
        (name->kind == Name::Kind::kShared || name->kind == Name::Kind::kLocals ||
         name->kind == Name::Kind::kEntryParameter)) {
      return {};
    }
  }
  return VerifyPlain(1);
}

Refusal FunctionVerifier::VerifyCall(bool passed) {
  const auto& operands = instruction_.operands;
  const bool has_results = operands[0].kind == Operand::Kind::kList;
  const size_t name = has_results ? 1 : 0;
  const bool has_arguments = operands.size() > name + 1;
  if (operands.size() > name + 2 || operands.size() <= name || !IsPlainName(operands[name])) {
    return "not a call of a function by its name";
  }
  // The name is looked up in the body, too: a register of the same name would be called instead.
  const Name* const declared = scope_.Find(operands[name].name);
  const auto found = module_.definitions.find(operands[name].name);
  if (declared == nullptr || declared->kind != Name::Kind::kFunction ||
      found == module_.definitions.end() || module_.functions[found->second].head.is_entry) {
    return "not a function that the module defines";
  }
  const Head& callee = module_.functions[found->second].head;
  facts_->callees.push_back(found->second);
  if (module_.locals != 0 && !passed) return "wlg_pass is not written before the call";
  const Operand none = {.kind = Operand::Kind::kList};
  const Operand& results = has_results ? operands[0] : none;
  const Operand& arguments = has_arguments ? operands[name + 1] : none;
  if (Refusal refusal = VerifyList(results, callee.results, false); !refusal.empty()) {
    return refusal;
  }
  return VerifyList(arguments, callee.parameters, true);
}

Refusal FunctionVerifier::VerifyList(const Operand& list, const std::vector<Variable>& formal,
                                     bool is_arguments) {
  if (list.kind != Operand::Kind::kList || list.count != formal.size()) {
    return "not the number of arguments or results that the function has";
  }
  for (size_t i = 0; i < formal.size(); ++i) {
    const Operand& actual = instruction_.ElementsOf(list)[i];
    const Name* const name = IsPlainName(actual) ? scope_.Find(actual.name) : nullptr;
    if (name == nullptr || name->kind != Name::Kind::kBodyParameter) {
      return "not a parameter that the body declares";
    }
    const bool is_pass = is_arguments && i == 0 && module_.locals != 0;
    if (is_pass ? actual.name != "wlg_pass" : IsGuardName(actual.name)) {
      return "wlg_pass is not the first argument, and only this one";
    }
    if (name->bytes != formal[i].Bytes() || name->alignment != formal[i].Alignment()) {
      return "an argument or result of another size than the function has";
    }
  }
  return {};
}

// An operand that is no address: registers, literals, and vectors and pairs of these. The first
// operand and parts of vectors and pairs may be destinations, and so they are no guard registers.
Refusal FunctionVerifier::VerifyPlain(size_t index) const {
  const Operand& operand = instruction_.operands[index];
  switch (operand.kind) {
    case Operand::Kind::kSink:
    case Operand::Kind::kInteger:
    case Operand::Kind::kFloat:
      return {};
    case Operand::Kind::kName:
      return VerifyRegister(operand, index != 0);
    case Operand::Kind::kVector:
    case Operand::Kind::kPair:
      for (const Operand& element : instruction_.ElementsOf(operand)) {
        if (element.kind != Operand::Kind::kName) continue;
        if (Refusal refusal = VerifyRegister(element, false); !refusal.empty()) return refusal;
      }
      return {};
    case Operand::Kind::kAddress:
    case Operand::Kind::kList:
      break;
  }
  return "an operand that this instruction does not have";
}

Refusal FunctionVerifier::VerifyRegister(const Operand& operand, bool may_be_guard) const {
  if (IsGuardName(operand.name) && !may_be_guard) return "a guard register may be written";
  if (operand.value != 0) return "an offset where there is no address";
  const Name* const name = operand.component.empty() ? scope_.Find(operand.name) : nullptr;
  if (name != nullptr && name->kind == Name::Kind::kRegister) return {};
  const bool may_be_read = IsReadableSpecialRegister(operand.name, operand.component);
  return may_be_read ? Refusal() : "not a register that may be used here";
}

}  // namespace warpline::guard
