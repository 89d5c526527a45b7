// The forms of the statements that write guard registers, as the contract spells them out.
// Thread-safe.
#ifndef WARPLINE_GUARD_VERIFY_FORMS_H_
#define WARPLINE_GUARD_VERIFY_FORMS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "guard/verify/names.h"

namespace warpline::guard {

// The registers wlg_g0, wlg_g1, ...
inline constexpr size_t kGroups = 4;

// What such a statement does.
enum class Step : uint8_t {
  // --- Of the prologue, in their order.
  kNone,
  kReadLane,  // Or the thread's place in its row, which `is_place` tells
  kLaneBit,
  kLanePlace,
  kLaneOffset,
  kWordsAddress,
  kLaneAddress,
  kSetBase,
  kSetGlobals,
  kSetConstants,
  kSetParameters,
  kSetEntryLocal,
  kSetFunctionLocal,
  kSetSmem,
  kSetIterations,
  // --- Of the arena fence and the stride.
  kX,  // wlg_x holds anything.
  kSplit,
  kConfineHigh,
  kAlignLow,
  kJoin,
  kJoinBase,
  kBoundStride,
  // --- Of the shared leg.
  kTestShared,
  kToShared,
  kMaskOff,
  kFromShared,
  kPickShared,
  // --- Of the check that a warp is whole.
  kReadLanes,
  kTestLanes,
  kDropLanes,
  // --- Of the hardened shared leg and the shared fence.
  kSharedToS,
  kS,  // wlg_s holds anything.
  kSetT,
  kBoundS,
  kAlignS,
  kSToOff,
  // --- Of a fence for several accesses to shared memory.
  kGroup,  // wlg_g0 to wlg_g3 hold anything.
  kBoundGroup,
  kAlignGroup,
  // --- Of a copy of a part of its bytes.
  kKeepPart,
  kTestPartIf,
  kTestPart,
  // --- Of the local leg and the local, parameter and constant fences.
  kTestLocal,
  kToLocal,
  kMeasureLeg,
  kMeasureLocal,
  kMeasureParameters,
  kMeasureConstants,
  kBoundOff,
  kAddLocal,
  kFromLocal,
  kPickLocal,
  kArriveLocal,
  kArriveParameters,
  kArriveConstants,
  // --- Of loops.
  kGiveIteration,
  kCountIteration,
  kTestIterations,
  kSetPasses,
  kGivePass,
  kTakeFromIterations,
  kCountPass,
  kTestPasses,
  kStopAddress,
  kReadStop,
  kTestStop,
  kTestPace,
  kRenewIterations,
  // --- Of lanes that go the same way.
  kVote,
  kVoteIterations,
  kVoteStop,
};

// A statement that is a step, and what its form leaves open.
struct Match {
  Step step = Step::kNone;
  int64_t number = 0;
  bool is_place = false;
  bool is_of_launch = false;   // The statement reads wlg_launch, and not wlg_const.
  size_t group = 0;            // Of the register wlg_g0 to wlg_g3
  std::string_view name = {};  // The register or the variable in shared memory that it reads
};

// Returns which step a statement is, or kNone. The statement has no predicate, tab and semicolon.
// `scope` is that of its function, and `first_parameter` the name of the function's first
// parameter.
Match FindStep(std::string_view statement, const Scope& scope, std::string_view first_parameter);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_FORMS_H_
