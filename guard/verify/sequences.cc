#include "guard/verify/sequences.h"

#include <iterator>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "guard/verify/instructions.h"

namespace warpline::guard {
namespace {

constexpr std::string_view kCountLanes[] = {
    "\tmov.u32 wlg_lo, %tid.z;",
    "\tmov.u32 wlg_t, %ntid.y;",
    "\tmov.u32 wlg_hi, %tid.y;",
    "\tmad.lo.u32 wlg_lo, wlg_lo, wlg_t, wlg_hi;",
    "\tmov.u32 wlg_hi, %ntid.x;",
    "\tmul.lo.u32 wlg_t, wlg_t, wlg_hi;",
    "\tmul.lo.u32 wlg_lo, wlg_lo, wlg_hi;",
    "\tmov.u32 wlg_hi, %tid.x;",
    "\tadd.u32 wlg_lo, wlg_lo, wlg_hi;",
    "\tand.b32 wlg_lo, wlg_lo, -32;",
    "\tmov.u32 wlg_hi, %ntid.z;",
    "\tmul.lo.u32 wlg_t, wlg_t, wlg_hi;",
    "\tsub.u32 wlg_t, wlg_t, wlg_lo;",
    "\tmov.b32 wlg_live, -1;",
    "\tshl.b32 wlg_live, wlg_live, wlg_t;",
    "\tnot.b32 wlg_live, wlg_live;",
};

constexpr std::string_view kWholeWarp[] = {
    "\tbar.warp.sync -1;",
    "\tactivemask.b32 wlg_t;",
    "\tsetp.ne.s32 wlg_ps, wlg_t, -1;",
    "\t@wlg_ps exit;",
};
// Behind the third one may stand that the lanes are not all that there are either, and that those
// which end leave a line, which is an access like others.
constexpr size_t kTested = 3;
constexpr std::string_view kTestLiveLanes = "\tsetp.ne.and.s32 wlg_ps, wlg_t, wlg_live, wlg_ps;";
constexpr std::string_view kLeaveLine = "\t@wlg_ps st.global.b32 [wlg_at";

constexpr std::string_view kVoteToStay = "\tvote.sync.ballot.b32 wlg_t, ";
constexpr std::string_view kEndOfVote = ", -1;";
constexpr std::string_view kDropLanes = "\tand.b32 wlg_live, wlg_live, wlg_t;";

// The predicates that are voted on, with what a vote begins with.
struct Vote {
  std::string_view predicate;
  std::string_view line;
};
constexpr Vote kVotes[] = {
    {"wlg_ps", "\tvote.sync.any.pred wlg_ps, wlg_ps, -1;"},
    {"wlg_pl", "\tvote.sync.all.pred wlg_pl, wlg_pl, -1;"},
    {"wlg_pu", "\tvote.sync.any.pred wlg_pu, "},
};

// What is done by the lanes that an operand names, and its place.
struct ByNamedLanes {
  std::string_view opcode;
  size_t mask;
};
constexpr ByNamedLanes kByNamedLanes[] = {
    {"bar", 0}, {"vote", 2}, {"match", 2}, {"redux", 2}, {"shfl", 4},
};

constexpr std::string_view kZeroShared[] = {
    "\tmov.u32 wlg_s, %reserved_smem_offset_end;",
    "\tadd.u32 wlg_s, wlg_s, 15;",
    "\tand.b32 wlg_s, wlg_s, -16;",
    "\tmad.lo.u32 wlg_s, wlg_tid, 16, wlg_s;",
    "\tsetp.ge.u32 wlg_ps, wlg_s, wlg_smem;",
    "\t@wlg_ps bra wlg_zeroed;",
    "wlg_zero:",
    "\tst.shared.v4.b32 [wlg_s], {0, 0, 0, 0};",
    "\tld.param.b32 wlg_t, [wlg_launch+16];",
    "\tadd.u32 wlg_s, wlg_s, wlg_t;",
    "\tsetp.lt.u32 wlg_ps, wlg_s, wlg_smem;",
    "\t@wlg_ps bra wlg_zero;",
    "wlg_zeroed:",
};
constexpr std::string_view kAwaitZeros[] = {
    "\tmov.u32 wlg_s, %reserved_smem_offset_end;",
    "\tsetp.lt.u32 wlg_ps, wlg_s, wlg_smem;",
    "\t@wlg_ps barrier.sync 0;",
};
constexpr std::string_view kGiveIteration = "\tmax.s32 wlg_n, wlg_n, 1;";
constexpr std::string_view kCountIteration = "\tadd.s32 wlg_n, wlg_n, -1;";
constexpr std::string_view kSetPasses = "\tmin.u32 wlg_passes, wlg_n, ";
constexpr std::string_view kGivePass = "\tmax.u32 wlg_passes, wlg_passes, 1;";
constexpr std::string_view kTakeFromIterations = "\tsub.s32 wlg_n, wlg_n, wlg_passes;";
constexpr std::string_view kCountPass = "\tadd.s32 wlg_passes, wlg_passes, -1;";
constexpr std::string_view kParts[] = {"bra", "call", "ret", "exit"};

bool IsLiteral(const Operand& operand) { return operand.kind == Operand::Kind::kInteger; }

// Whether an operand names all lanes of a warp.
bool NamesAllLanes(const Operand& operand) {
  return IsLiteral(operand) && (operand.value == -1 || operand.value == 0xffffffff);
}

// Whether some lanes may go on from an instruction before others do, though all go the same way.
bool MaySeparate(const Instruction& instruction) {
  if (instruction.opcode == "nanosleep") return instruction.has_predicate;
  if (instruction.opcode == "barrier") {
    return instruction.has_predicate || !absl::c_all_of(BarrierNumbers(instruction), IsLiteral);
  }
  const auto* const found = absl::c_find_if(
      kByNamedLanes, [&](const ByNamedLanes& row) { return row.opcode == instruction.opcode; });
  if (found == std::end(kByNamedLanes)) return false;
  return instruction.has_predicate || instruction.operands.size() <= found->mask ||
         !NamesAllLanes(instruction.operands[found->mask]);
}

}  // namespace

bool LaneCounting::Follow(std::string_view line, bool may_begin, Refusal* refusal) {
  if (done_ == std::size(kCountLanes) || (done_ == 0 && !may_begin)) return false;
  if (line == kCountLanes[done_]) {
    ++done_;
    return true;
  }
  if (done_ > 0) *refusal = "a statement among those that count the lanes of a warp";
  return done_ > 0;
}

bool LaneCounting::is_complete() const { return done_ == std::size(kCountLanes); }

Refusal LeavingLanes::Follow(std::string_view line) {
  constexpr Refusal kBroken = "lanes that are not counted any more and do not end";
  switch (at_) {
    case At::kVoted:
      at_ = At::kDropped;
      return line == kDropLanes ? Refusal() : kBroken;
    case At::kDropped:
      at_ = At::kExit;
      return line == exit_ ? Refusal() : kBroken;
    case At::kElsewhere:
    case At::kExit:
      break;
  }
  at_ = At::kElsewhere;
  if (line == kDropLanes) return kBroken;
  if (!line.starts_with(kVoteToStay) || !line.ends_with(kEndOfVote)) return {};
  line.remove_prefix(kVoteToStay.size());
  line.remove_suffix(kEndOfVote.size());
  exit_ = line.starts_with('!') ? absl::StrCat("\t@", std::string(line.substr(1)), " exit;")
                                : absl::StrCat("\t@!", std::string(line), " exit;");
  at_ = At::kVoted;
  return {};
}

bool WholeWarpCheck::IsBesides(std::string_view line) {
  if (done_ == kTested && besides_ < Besides::kLiveLanes && line == kTestLiveLanes) {
    besides_ = Besides::kLiveLanes;
    return true;
  }
  if (done_ == kTested && besides_ < Besides::kLine && line.starts_with(kLeaveLine)) {
    besides_ = Besides::kLine;
    return true;
  }
  besides_ = Besides::kNothing;
  return false;
}

void WholeWarpCheck::Follow(std::string_view line, const Instruction& instruction, bool leaves) {
  const bool was_whole = is_whole_;
  // Those who are called may part.
  keeps_together_ = was_whole && instruction.opcode != "call" &&
                    (!instruction.has_predicate || leaves || IsVoted(instruction.predicate));
  if (!IsBesides(line)) {
    done_ = line == kWholeWarp[done_] ? done_ + 1 : line == kWholeWarp[0] ? 1 : 0;
  }
  if (done_ == std::size(kWholeWarp)) {
    done_ = 0;
    is_whole_ = true;
  } else if ((absl::c_linear_search(kParts, instruction.opcode) && !keeps_together_) ||
             MaySeparate(instruction)) {
    is_whole_ = false;
  }
  if (instruction.operands.empty()) return;
  for (size_t i = 0; i < std::size(kVotes); ++i) {
    if (instruction.operands[0].name != kVotes[i].predicate) continue;
    voted_[i] = was_whole && line.starts_with(kVotes[i].line);
  }
}

void WholeWarpCheck::PlaceLabel(bool joined) {
  done_ = 0;
  besides_ = Besides::kNothing;
  is_whole_ = joined;
  voted_ = {};
}

bool WholeWarpCheck::IsVoted(std::string_view predicate) const {
  for (size_t i = 0; i < std::size(kVotes); ++i) {
    if (predicate == kVotes[i].predicate) return voted_[i];
  }
  return false;
}

LoopStarts::At LoopStarts::Next(std::string_view line, bool is_label) const {
  switch (at_) {
    case At::kGiven:
      return is_label ? At::kLabel : line.starts_with(kSetPasses) ? At::kPassesSet : At::kElsewhere;
    case At::kPassesSet:
      return line == kGivePass ? At::kPassGiven : At::kElsewhere;
    case At::kPassGiven:
      return line == kTakeFromIterations ? At::kPassesTaken : At::kElsewhere;
    case At::kPassesTaken:
      return is_label ? At::kPassLabel : At::kElsewhere;
    case At::kElsewhere:
    case At::kLabel:
    case At::kPassLabel:
      return line == kGiveIteration ? At::kGiven : At::kElsewhere;
  }
  return At::kElsewhere;
}

Refusal LoopStarts::Follow(std::string_view line) {
  const bool is_label = !line.empty() && line.back() == ':';
  const bool counts = line == kCountIteration, counts_pass = line == kCountPass;
  const At next = Next(line, is_label);
  if ((at_ == At::kGiven && next == At::kElsewhere) || (at_ == At::kLabel && !counts)) {
    return "an iteration is given and not taken at the label of a loop";
  }
  const bool begins_passes = at_ >= At::kPassesSet && at_ <= At::kPassesTaken;
  const bool is_of_passes =
      line.starts_with(kSetPasses) || line == kGivePass || line == kTakeFromIterations;
  if (((begins_passes || is_of_passes) && next == At::kElsewhere) ||
      (at_ == At::kPassLabel) != counts_pass) {
    return "passes of a loop that are not taken from its iterations, or not counted at its label";
  }
  if (counts && !label_.empty()) counted_.insert(label_);
  label_ = is_label ? line.substr(0, line.size() - 1) : std::string_view();
  if (is_label) pass_label_ = next == At::kPassLabel ? label_ : std::string_view();
  if (next == At::kPassLabel) pass_labels_.insert(label_);
  at_ = next;
  return {};
}

bool SharedZeroing::Follow(std::string_view line, bool may_begin, Refusal* refusal) {
  if (step_ == Step::kAwaited) return FollowLines(kZeroShared, line, refusal);  // A second one
  if (step_ == Step::kZeroed) return FollowLines(kAwaitZeros, line, refusal);
  const bool is_first = done_ == 0;
  if (!FollowLines(kZeroShared, line, refusal)) return false;
  if (is_first && !may_begin) {
    *refusal = "shared memory is zeroed in another place than the start of an entry";
  }
  return true;
}

// Whether the line is one of a run, or ought to be. A run that has ended is the next step.
bool SharedZeroing::FollowLines(absl::Span<const std::string_view> lines, std::string_view line,
                                Refusal* refusal) {
  if (line != lines[done_]) {
    if (done_ > 0) *refusal = "a statement among those that zero shared memory";
    return done_ > 0;
  }
  if (step_ == Step::kAwaited) *refusal = "shared memory is zeroed a second time";
  if (++done_ == lines.size()) {
    done_ = 0;
    step_ = step_ == Step::kNone ? Step::kZeroed : Step::kAwaited;
  }
  return true;
}

}  // namespace warpline::guard
