#include "guard/verify/fences.h"

#include <algorithm>

namespace warpline::guard {
namespace {

using Holds = Value::Holds;
using Stage = Value::Stage;

constexpr int64_t kMostAccess = 32;     // Bytes of the largest access
constexpr int64_t kBaseAlignment = 16;  // Of wlg_locals and of an entry's parameters
constexpr int64_t kMostSpan = 1024;     // Of shared memory, which each block has
constexpr int64_t kSharedMask = 262143;
constexpr int64_t kMostIterations = 65535;

// Whether `number` is a power of two that may be the bytes of an access.
bool IsAccessSize(int64_t number) {
  return number >= 1 && number <= kMostAccess && (number & (number - 1)) == 0;
}
bool IsAlignmentMask(int64_t number) { return number < -1 && IsAccessSize(-number); }

constexpr Refusal kMissing = "a step of the fence is missing before this one";
constexpr Refusal kNotSet = "the prologue has not set what this reads";
constexpr Refusal kHardenedOnly = "a step of hardened fences";
constexpr Refusal kWrongNumber = "the wrong number in a fence";

}  // namespace

void Fences::Reset() {
  in_prologue_ = false;
  now_ = GuardState();
}

void Fences::ForgetShared() {
  now_.s = {};
  ForgetStop();
}

// wlg_ps holds something else.
void Fences::ForgetStop() { now_.has_shared_window = now_.is_stopping = now_.is_unpaced = false; }

bool Fences::Nap() {
  if (!now_.has_renewed || now_.t.holds != Holds::kPace) return false;
  now_.t = {};
  now_.has_renewed = false;
  now_.may_go_on = true;
  return true;
}

Refusal Fences::Apply(std::string_view statement) {
  const Match match = FindStep(statement, scope_, limits_.first_parameter);
  const Step step = match.step;
  const int64_t number = match.number;
  if (step == Step::kNone) return "a guard register is written by something else than a fence";
  if (step == Step::kSetIterations) {
    if (Refusal refusal = SetIterations(number); !refusal.empty()) return refusal;
  }
  if (match.is_place && !limits_.is_wide) return "%tid.x may be the same for all threads";
  if ((step == Step::kWordsAddress || step == Step::kSetBase || step == Step::kStopAddress) &&
      match.is_of_launch != limits_.is_entry) {
    return "entries have such a word from wlg_launch, and others from wlg_const";
  }
  if (step <= Step::kSetIterations) return ApplyPrologue(step);
  in_prologue_ = false;
  if (step <= Step::kBoundStride) return ApplyArena(step, number);
  if (step >= Step::kGroup && step <= Step::kAlignGroup) {
    return ApplyGroup(match, &now_.groups[match.group]);
  }
  if (step <= Step::kTestPart) return ApplyShared(match);
  if (step <= Step::kArriveConstants) return ApplyWindow(step, number);
  if (step == Step::kRenewIterations) return RenewIterations(number);
  return step <= Step::kTestPace ? ApplyLoop(step) : ApplyVote(step);
}

// How many iterations there are until the first poll.
Refusal Fences::SetIterations(int64_t number) {
  if (!limits_.policy.hardened) return kHardenedOnly;
  // A function that is called may be called from a loop, and have a loop that is entered in its
  // midst, where nothing is given or taken: it asks at the first branch back.
  if (!limits_.is_entry) return number == 0 ? Refusal() : kWrongNumber;
  if (number < 1 || number > kMostIterations) return kWrongNumber;
  iterations_ = first_iterations_ = number;
  return {};
}

// How many there are behind a poll: a single one where the thread goes slowly.
Refusal Fences::RenewIterations(int64_t number) {
  if (!limits_.policy.hardened) return kHardenedOnly;
  if (number < 1 || number > kMostIterations) return kWrongNumber;
  if (!prologue_.iterations) return kNotSet;
  if (!now_.has_asked || !now_.is_unpaced) return kMissing;
  iterations_ = std::max(iterations_, number);
  now_.has_renewed = true;
  return {};
}

Refusal Fences::ApplyLoop(Step step) {
  if (!limits_.policy.hardened) return kHardenedOnly;
  switch (step) {
    case Step::kGiveIteration:
    case Step::kCountIteration:
    case Step::kSetPasses:
    case Step::kGivePass:
    case Step::kTakeFromIterations:
    case Step::kCountPass:
      return prologue_.iterations ? Refusal() : kNotSet;
    case Step::kTestIterations:
    case Step::kTestPasses:
      now_.has_local_window = false;
      now_.may_iterate = step == Step::kTestIterations;
      now_.may_pass = step == Step::kTestPasses;
      return prologue_.iterations ? Refusal() : kNotSet;
    case Step::kStopAddress:
      now_.at = {.holds = Holds::kPace};
      now_.has_shared_leg = now_.has_local_leg = false;
      return {};
    case Step::kReadStop:
      if (now_.at.holds != Holds::kPace) return kMissing;
      now_.t = {.holds = Holds::kPace};
      now_.part = 0;
      now_.has_asked = now_.has_renewed = false;
      return {};
    default:  // kTestStop, kTestPace
      ForgetStop();
      if (now_.t.holds != Holds::kPace) return kMissing;
      (step == Step::kTestStop ? now_.is_stopping : now_.is_unpaced) = true;
      return {};
  }
}

// Lanes go on while each of them has iterations left, and take one of their own then; and they stop
// where one is to stop.
Refusal Fences::ApplyVote(Step step) {
  if (step == Step::kVoteIterations) {
    now_.has_local_window = false;
    return now_.may_iterate ? Refusal() : kMissing;
  }
  if (step == Step::kVoteStop) {
    now_.has_shared_window = now_.is_unpaced = false;
    return now_.is_stopping ? Refusal() : kMissing;
  }
  return {};
}

Refusal Fences::ApplyPrologue(Step step) {
  if (!in_prologue_) return "a statement of the prologue stands behind it";
  if (step <= last_prologue_step_) return "the order of the prologue";
  // The steps up to wlg_base make one.
  const bool is_next = static_cast<int>(step) == static_cast<int>(last_prologue_step_) + 1;
  const bool is_broken_off =
      last_prologue_step_ != Step::kNone && last_prologue_step_ < Step::kSetBase;
  if ((step <= Step::kSetBase || is_broken_off) && !is_next) return "the order of the prologue";
  last_prologue_step_ = step;
  if (step < Step::kSetBase) return {};
  switch (step) {
    case Step::kSetBase:
      prologue_.base = true;
      return {};
    case Step::kSetGlobals:
      return {};
    case Step::kSetConstants:
      prologue_.constants = true;
      return {};
    case Step::kSetParameters:
      prologue_.parameters = true;
      return limits_.is_entry ? Refusal() : "wlg_params outside of an entry";
    case Step::kSetEntryLocal:
      prologue_.local = true;
      return scope_.Find("wlg_locals") != nullptr ? Refusal() : "wlg_locals is not declared";
    case Step::kSetFunctionLocal:
      prologue_.local = true;
      return scope_.Find("wlg_depot") != nullptr ? Refusal() : "wlg_depot is not declared";
    case Step::kSetIterations:
      prologue_.iterations = true;
      return {};
    default:
      prologue_.smem = true;
      return limits_.target >= 90 ? Refusal() : "%aggr_smem_size needs target sm_90";
  }
}

Refusal Fences::ApplyArena(Step step, int64_t number) {
  const int bits = limits_.policy.arena_bits;
  switch (step) {
    case Step::kSplit:
      now_.lo = now_.hi = {.holds = Holds::kRaw};
      return {};
    case Step::kConfineHigh:
      if (now_.hi.holds != Holds::kRaw) return kMissing;
      if (!prologue_.base) return kNotSet;
      if (bits <= 32 || number != (int64_t{1} << (bits - 32)) - 1) return kWrongNumber;
      now_.hi.holds = Holds::kConfined;
      return {};
    case Step::kAlignLow:
      if (!limits_.policy.hardened) return kHardenedOnly;
      if (now_.lo.holds != Holds::kRaw) return kMissing;
      if (!IsAlignmentMask(number)) return kWrongNumber;
      now_.lo.alignment = std::max(now_.lo.alignment, -number);
      return {};
    case Step::kJoin:
    case Step::kJoinBase:
      if (now_.lo.holds != Holds::kRaw) return kMissing;
      if (step == Step::kJoin && now_.hi.holds != Holds::kConfined) return kMissing;
      if (step == Step::kJoinBase && !prologue_.base) return kNotSet;
      if (step == Step::kJoinBase && bits != 32) return "the fence of an arena of 32 bits";
      now_.at = {.holds = Holds::kInArena, .bytes = kMostAccess, .alignment = now_.lo.alignment};
      now_.has_shared_leg = now_.has_local_leg = false;
      return {};
    case Step::kBoundStride:
      if (number != kMostStride && number != kMostBulk) return kWrongNumber;
      now_.stride_bound = number;
      return {};
    default:  // kX
      return {};
  }
}

// What a shared fence begins with: a register or a variable, with a number added or not.
int64_t Fences::AlignmentOf(const Match& match) const {
  return match.name.empty() ? 1 : alignments_.Of(match.name, match.number);
}

Refusal Fences::ApplyShared(const Match& match) {
  const Step step = match.step;
  const int64_t number = match.number;
  Value& off = now_.off;
  Value& s = now_.s;
  const bool hardened = limits_.policy.hardened;
  if (step >= Step::kSharedToS && !hardened) return kHardenedOnly;
  switch (step) {
    case Step::kTestShared:
      ForgetStop();
      now_.has_shared_window = true;
      return {};
    case Step::kToShared:
      off = {.holds = Holds::kShared};
      return {};
    case Step::kMaskOff:
      if (off.holds == Holds::kShared && off.stage == Stage::kDistance && !hardened) {
        off.stage = Stage::kBounded;
        off.bytes = kMostAccess;
        return number == kSharedMask ? Refusal() : kWrongNumber;
      }
      if (!hardened) return kHardenedOnly;
      if (off.holds < Holds::kLocal || off.stage != Stage::kBounded) return kMissing;
      if (!IsAlignmentMask(number)) return kWrongNumber;
      off.alignment = std::max(off.alignment, -number);
      return {};
    case Step::kFromShared:
      if (off.holds != Holds::kShared || off.stage != Stage::kBounded) return kMissing;
      off.stage = Stage::kGeneric;
      return {};
    case Step::kPickShared:
      if (now_.at.holds != Holds::kInArena || now_.has_shared_leg || !now_.has_shared_window ||
          off.holds != Holds::kShared || off.stage != Stage::kGeneric) {
        return kMissing;
      }
      now_.has_shared_leg = true;
      now_.at.bytes = std::min(now_.at.bytes, off.bytes);
      now_.at.alignment = std::min(now_.at.alignment, off.alignment);
      return {};
    case Step::kSharedToS:
      if (off.holds != Holds::kShared || off.stage != Stage::kDistance) return kMissing;
      s = {.holds = Holds::kRaw};
      return {};
    case Step::kSetT:
      if (!prologue_.smem) return kNotSet;
      if (number < 1 || number > kMostSpan) return kWrongNumber;
      now_.t = {.holds = Holds::kRaw, .bytes = number};
      now_.part = 0;
      return {};
    case Step::kBoundS:
      if (s.holds != Holds::kRaw || now_.t.holds != Holds::kRaw) return kMissing;
      s = Clamped(s);
      return {};
    case Step::kAlignS:
      if (s.holds != Holds::kShared) return kMissing;
      if (!IsAlignmentMask(number)) return kWrongNumber;
      s.alignment = std::max(s.alignment, -number);
      return {};
    case Step::kSToOff:
      if (s.holds != Holds::kShared) return kMissing;
      off = s;
      return {};
    case Step::kReadLanes:
      now_.t = {};
      now_.part = 0;
      return {};
    case Step::kTestLanes:
      ForgetStop();
      return {};
    case Step::kDropLanes:
      return {};
    case Step::kKeepPart:
      now_.t = {};
      now_.part = number;
      return number > 0 && number <= kMostAccess ? Refusal() : kWrongNumber;
    case Step::kTestPartIf:
    case Step::kTestPart:
      ForgetStop();
      return now_.part != 0 ? Refusal() : kMissing;
    default:  // kS
      s = {.holds = Holds::kRaw, .alignment = AlignmentOf(match)};
      return {};
  }
}

// The least of a raw value and of where the last of so many bytes begin. So it is a multiple of
// what both are.
Value Fences::Clamped(const Value& raw) const {
  return {.holds = Holds::kShared,
          .stage = Stage::kBounded,
          .bytes = now_.t.bytes,
          .alignment = std::min(raw.alignment, Alignments::OfNumber(now_.t.bytes))};
}

Refusal Fences::ApplyGroup(const Match& match, Value* group) {
  const Step step = match.step;
  const int64_t number = match.number;
  if (!limits_.policy.hardened) return kHardenedOnly;
  switch (step) {
    case Step::kBoundGroup:
      if (group->holds != Holds::kRaw || now_.t.holds != Holds::kRaw) return kMissing;
      *group = Clamped(*group);
      return {};
    case Step::kAlignGroup:
      if (group->holds != Holds::kShared) return kMissing;
      if (!IsAlignmentMask(number)) return kWrongNumber;
      group->alignment = std::max(group->alignment, -number);
      return {};
    default:  // kGroup
      *group = {.holds = Holds::kRaw, .alignment = AlignmentOf(match)};
      return {};
  }
}

Refusal Fences::ApplyWindow(Step step, int64_t number) {
  Value& off = now_.off;
  switch (step) {
    case Step::kTestLocal:
      now_.has_local_window = true;
      now_.may_iterate = now_.may_pass = false;
      return {};
    case Step::kToLocal:
      off = {.holds = Holds::kRaw};
      return {};
    case Step::kMeasureLeg:
      if (off.holds != Holds::kRaw) return kMissing;
      return Measure(Holds::kLocal, prologue_.local);
    case Step::kMeasureLocal:
      return Measure(Holds::kLocal, prologue_.local);
    case Step::kMeasureParameters:
      return Measure(Holds::kParameters, prologue_.parameters);
    case Step::kMeasureConstants:
      return Measure(Holds::kConstants, prologue_.constants);
    case Step::kBoundOff:
      return Bound(number);
    case Step::kAddLocal:
      if (off.holds != Holds::kLocal || off.stage != Stage::kBounded) return kMissing;
      off.stage = Stage::kAddress;
      return {};
    case Step::kFromLocal:
      if (off.holds != Holds::kLocal || off.stage != Stage::kAddress) return kMissing;
      off.stage = Stage::kGeneric;
      return {};
    case Step::kPickLocal:
      if (!now_.has_shared_leg || now_.has_local_leg || !now_.has_local_window ||
          off.holds != Holds::kLocal || off.stage != Stage::kGeneric) {
        return kMissing;
      }
      now_.has_local_leg = true;
      now_.at.bytes = std::min(now_.at.bytes, off.bytes);
      now_.at.alignment = std::min({now_.at.alignment, off.alignment, kBaseAlignment});
      return {};
    case Step::kArriveLocal:
      return Arrive(Holds::kLocal);
    case Step::kArriveParameters:
      return Arrive(Holds::kParameters);
    default:  // kArriveConstants
      return Arrive(Holds::kConstants);
  }
}

// wlg_off becomes the distance of an address from the start of a window.
Refusal Fences::Measure(Holds window, bool base_is_set) {
  now_.off = {.holds = window};
  return base_is_set ? Refusal() : kNotSet;
}

// wlg_off becomes at most `most`, so that what is left of the window may be accessed from there.
Refusal Fences::Bound(int64_t most) {
  Value& off = now_.off;
  if (off.holds < Holds::kLocal || off.stage != Stage::kDistance) return kMissing;
  const int64_t total = off.holds == Holds::kLocal        ? limits_.locals
                        : off.holds == Holds::kParameters ? limits_.parameters
                                                          : limits_.constants;
  if (most < 0 || most >= total) return kWrongNumber;
  off.stage = Stage::kBounded;
  off.bytes = total - most;
  return {};
}

// wlg_at becomes an address in the window.
Refusal Fences::Arrive(Holds window) {
  const Value& off = now_.off;
  if (off.holds != window || off.stage != Stage::kBounded) return kMissing;
  now_.at = {
      .holds = window, .bytes = off.bytes, .alignment = std::min(off.alignment, kBaseAlignment)};
  now_.has_shared_leg = now_.has_local_leg = false;
  return {};
}

}  // namespace warpline::guard
