#include "guard/verify/forms.h"

#include "guard/verify/reader.h"

namespace warpline::guard {
namespace {

struct Form {
  // <X> is a register of 64 bits, <R> one of 32 bits, <Q> a predicate with or without !, <S> a
  // variable in shared memory with or without an offset, <P> the first parameter, <N> a number, and
  // <G> a digit, the same at all places.
  std::string_view text;
  Step step;
  bool is_of_launch = false;
};

constexpr std::string_view kReadPlace = "mov.u32 wlg_t, %tid.x";

constexpr Form kForms[] = {
    {"mov.b64 {wlg_lo, wlg_hi}, <X>", Step::kSplit},
    {"lop3.b32 wlg_hi, wlg_hi, <N>, wlg_base, 234", Step::kConfineHigh},
    {"and.b32 wlg_lo, wlg_lo, <N>", Step::kAlignLow},
    {"mov.b64 wlg_at, {wlg_lo, wlg_hi}", Step::kJoin},
    {"mov.b64 wlg_at, {wlg_lo, wlg_base}", Step::kJoinBase},
    {"add.s64 wlg_x, <X>, <N>", Step::kX},
    {"cvt.u64.u32 wlg_x, <R>", Step::kX},
    {"cvta.to.shared.u64 wlg_x, <X>", Step::kX},
    {"ld.const.b64 wlg_x, [wlg_const+24]", Step::kX},
    {"min.u32 wlg_stride, <R>, <N>", Step::kBoundStride},

    {"isspacep.shared wlg_ps, <X>", Step::kTestShared},
    {"cvta.to.shared.u64 wlg_off, <X>", Step::kToShared},
    {"and.b64 wlg_off, wlg_off, <N>", Step::kMaskOff},
    {"cvta.shared.u64 wlg_off, wlg_off", Step::kFromShared},
    {"selp.b64 wlg_at, wlg_off, wlg_at, wlg_ps", Step::kPickShared},
    {"cvt.u32.u64 wlg_s, wlg_off", Step::kSharedToS},
    {"cvt.u32.u64 wlg_s, <X>", Step::kS},
    {"add.s32 wlg_s, <R>, <N>", Step::kS},
    {"add.s32 wlg_s, wlg_s, <N>", Step::kS},
    {"mov.b32 wlg_s, <R>", Step::kS},
    {"mov.b32 wlg_s, <S>", Step::kS},
    {"sub.s32 wlg_t, wlg_smem, <N>", Step::kSetT},
    {"min.u32 wlg_s, wlg_s, wlg_t", Step::kBoundS},
    {"and.b32 wlg_s, wlg_s, <N>", Step::kAlignS},
    {"cvt.u64.u32 wlg_off, wlg_s", Step::kSToOff},
    {"cvt.u32.u64 wlg_g<G>, <X>", Step::kGroup},
    {"add.s32 wlg_g<G>, <R>, <N>", Step::kGroup},
    {"add.s32 wlg_g<G>, wlg_g<G>, <N>", Step::kGroup},
    {"mov.b32 wlg_g<G>, <R>", Step::kGroup},
    {"min.u32 wlg_g<G>, wlg_g<G>, wlg_t", Step::kBoundGroup},
    {"and.b32 wlg_g<G>, wlg_g<G>, <N>", Step::kAlignGroup},
    {"and.b32 wlg_t, <R>, <N>", Step::kKeepPart},
    {"setp.ne.s32 wlg_ps, wlg_t, 0", Step::kTestPart},
    {"setp.ne.and.s32 wlg_ps, wlg_t, 0, <Q>", Step::kTestPartIf},

    {"activemask.b32 wlg_t", Step::kReadLanes},
    {"setp.ne.s32 wlg_ps, wlg_t, -1", Step::kTestLanes},
    {"setp.ne.and.s32 wlg_ps, wlg_t, wlg_live, wlg_ps", Step::kTestLanes},
    {"vote.sync.ballot.b32 wlg_t, <Q>, -1", Step::kReadLanes},
    {"and.b32 wlg_live, wlg_live, wlg_t", Step::kDropLanes},

    {"isspacep.local wlg_pl, <X>", Step::kTestLocal},
    {"cvta.to.local.u64 wlg_off, <X>", Step::kToLocal},
    {"sub.s64 wlg_off, wlg_off, wlg_local", Step::kMeasureLeg},
    {"sub.s64 wlg_off, <X>, wlg_local", Step::kMeasureLocal},
    {"sub.s64 wlg_off, <X>, wlg_params", Step::kMeasureParameters},
    {"sub.s64 wlg_off, <X>, wlg_consts", Step::kMeasureConstants},
    {"min.u64 wlg_off, wlg_off, <N>", Step::kBoundOff},
    {"add.s64 wlg_off, wlg_off, wlg_local", Step::kAddLocal},
    {"cvta.local.u64 wlg_off, wlg_off", Step::kFromLocal},
    {"selp.b64 wlg_at, wlg_off, wlg_at, wlg_pl", Step::kPickLocal},
    {"add.s64 wlg_at, wlg_off, wlg_local", Step::kArriveLocal},
    {"add.s64 wlg_at, wlg_off, wlg_params", Step::kArriveParameters},
    {"add.s64 wlg_at, wlg_off, wlg_consts", Step::kArriveConstants},

    {"mov.u32 wlg_t, %laneid", Step::kReadLane},
    {kReadPlace, Step::kReadLane},
    {"and.b32 wlg_t, wlg_t, 1", Step::kLaneBit},
    {"shl.b32 wlg_t, wlg_t, 2", Step::kLanePlace},
    {"cvt.u64.u32 wlg_off, wlg_t", Step::kLaneOffset},
    {"mov.b64 wlg_at, wlg_const", Step::kWordsAddress},
    {"mov.b64 wlg_at, wlg_launch", Step::kWordsAddress, /*is_of_launch=*/true},
    {"add.s64 wlg_off, wlg_off, wlg_at", Step::kLaneAddress},
    {"ld.const.b32 wlg_base, [wlg_off]", Step::kSetBase},
    {"ld.param.b32 wlg_base, [wlg_off]", Step::kSetBase, /*is_of_launch=*/true},
    {"ld.const.b64 wlg_globals, [wlg_const+8]", Step::kSetGlobals},
    {"mov.b64 wlg_consts, wlg_const", Step::kSetConstants},
    {"mov.b64 wlg_params, <P>", Step::kSetParameters},
    {"mov.b64 wlg_local, wlg_locals", Step::kSetEntryLocal},
    {"ld.param.b64 wlg_local, [wlg_depot]", Step::kSetFunctionLocal},
    {"mov.b32 wlg_smem, %aggr_smem_size", Step::kSetSmem},
    {"mov.b32 wlg_n, <N>", Step::kSetIterations},

    {"max.s32 wlg_n, wlg_n, 1", Step::kGiveIteration},
    {"add.s32 wlg_n, wlg_n, -1", Step::kCountIteration},
    {"setp.gt.s32 wlg_pl, wlg_n, 0", Step::kTestIterations},
    {"setp.gt.and.s32 wlg_pl, wlg_n, 0, <Q>", Step::kTestIterations},
    {"setp.gt.and.s32 wlg_pl, wlg_n, 0, wlg_pu", Step::kTestIterations},
    {"min.u32 wlg_passes, wlg_n, <R>", Step::kSetPasses},
    {"max.u32 wlg_passes, wlg_passes, 1", Step::kGivePass},
    {"sub.s32 wlg_n, wlg_n, wlg_passes", Step::kTakeFromIterations},
    {"add.s32 wlg_passes, wlg_passes, -1", Step::kCountPass},
    {"setp.gt.s32 wlg_pl, wlg_passes, 0", Step::kTestPasses},
    {"ld.const.b64 wlg_at, [wlg_const+40]", Step::kStopAddress},
    {"ld.param.b64 wlg_at, [wlg_launch+24]", Step::kStopAddress, /*is_of_launch=*/true},
    {"ld.volatile.global.b32 wlg_t, [wlg_at]", Step::kReadStop},
    {"setp.lt.s32 wlg_ps, wlg_t, 0", Step::kTestStop},
    {"setp.eq.s32 wlg_ps, wlg_t, 0", Step::kTestPace},
    {"selp.b32 wlg_n, <N>, 1, wlg_ps", Step::kRenewIterations},

    {"vote.sync.any.pred wlg_pu, <Q>, -1", Step::kVote},
    {"vote.sync.all.pred wlg_pl, wlg_pl, -1", Step::kVoteIterations},
    {"vote.sync.any.pred wlg_ps, wlg_ps, -1", Step::kVoteStop},
};

constexpr std::string_view kDigits = "0123";
static_assert(kDigits.size() == kGroups);

// Whether fences may confine what the register holds.
bool IsAddressRegister(std::string_view name, const Scope& scope) {
  if (IsGuardName(name) && name != "wlg_x" && name != "wlg_globals") return false;
  const Name* const found = scope.Find(name);
  return found != nullptr && found->kind == Name::Kind::kRegister && IsInteger64(found->type);
}

bool Matches(std::string_view form, std::string_view statement, const Scope& scope,
             std::string_view first_parameter, Match* match) {
  Cursor cursor(statement);
  *match = {.group = kGroups};
  while (!form.empty()) {
    const std::string_view literal = form.substr(0, form.find('<'));
    if (!cursor.Skip(literal)) return false;
    form.remove_prefix(literal.size());
    if (form.empty()) break;
    const char hole = form[1];
    form.remove_prefix(3);
    if (hole == 'N') {
      if (!cursor.Integer(&match->number)) return false;
      continue;
    }
    if (hole == 'G') {
      size_t digit = 0;
      while (digit < kGroups && !cursor.Skip(kDigits.substr(digit, 1))) ++digit;
      if (digit == kGroups || (match->group != kGroups && match->group != digit)) return false;
      match->group = digit;
      continue;
    }
    if (hole == 'Q') cursor.Skip("!");
    std::string_view name;
    if (!cursor.Name(&name)) return false;
    if (hole == 'X') {
      if (!IsAddressRegister(name, scope)) return false;
      continue;
    }
    const Name* const found = IsGuardName(name) ? nullptr : scope.Find(name);
    if (found == nullptr) return false;
    if (hole == 'R' && !(found->kind == Name::Kind::kRegister && IsInteger32(found->type))) {
      return false;
    }
    if (hole == 'Q' && !(found->kind == Name::Kind::kRegister && found->type == "pred")) {
      return false;
    }
    if (hole == 'S' && !(found->kind == Name::Kind::kShared && cursor.Offset(&match->number))) {
      return false;
    }
    if (hole == 'P' && name != first_parameter) return false;
    match->name = name;
  }
  return cursor.AtEnd();
}

}  // namespace

Match FindStep(std::string_view statement, const Scope& scope, std::string_view first_parameter) {
  Match match;
  for (const Form& form : kForms) {
    if (!Matches(form.text, statement, scope, first_parameter, &match)) continue;
    match.step = form.step;
    match.is_place = form.text == kReadPlace;
    match.is_of_launch = form.is_of_launch;
    return match;
  }
  return {};
}

}  // namespace warpline::guard
