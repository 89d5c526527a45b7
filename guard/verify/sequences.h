// Statements of the guard's that must stand together and in their order. Each class follows one
// such sequence through the lines of one function's body.
//
// Thread-compatible.
#ifndef WARPLINE_GUARD_VERIFY_SEQUENCES_H_
#define WARPLINE_GUARD_VERIFY_SEQUENCES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "guard/verify/reader.h"

namespace warpline::guard {

// How a function finds out which lanes the thread's warp has, which wlg_live says then.
class LaneCounting {
 public:
  // Whether the line is one of it, or ought to be; then `*refusal` is what is wrong with it.
  // `may_begin` says whether nothing of the tenant's stands above.
  bool Follow(std::string_view line, bool may_begin, Refusal* refusal);
  bool is_complete() const;

 private:
  size_t done_ = 0;  // Lines that have been read
};

// How lanes of a whole warp leave it for ever: all vote on who stays, those are what wlg_live says
// from then on, and the others end. Nothing stands in between.
class LeavingLanes {
 public:
  // Wants every line.
  Refusal Follow(std::string_view line);
  // Whether the line is the exit of those who leave.
  bool is_exit() const { return at_ == At::kExit; }

 private:
  enum class At : uint8_t { kElsewhere, kVoted, kDropped, kExit };

  At at_ = At::kElsewhere;
  std::string exit_;  // The line by which those leave who have voted so
};

// Where all lanes of a warp are together: behind a check that ends the warp if some are missing,
// until they part. They stay together where a branch or exit is taken by all or by none, since the
// lanes have voted on its predicate. They may part where some of them wait for each other or sleep.
// All are 32 in a function that does not count them, and in another one those that wlg_live says,
// which are all that there are and have not ended.
class WholeWarpCheck {
 public:
  // `leaves` says whether the others do not count those any more who end here.
  void Follow(std::string_view line, const Instruction& instruction, bool leaves);
  // A label stands here, to which lanes may come in parts, or, if `joined`, only whole warps.
  void PlaceLabel(bool joined);
  // Whether all lanes are here, on every way to here.
  bool is_whole() const { return is_whole_; }
  // Whether they were at the instruction that was followed, and still are wherever it leads.
  bool keeps_together() const { return keeps_together_; }

 private:
  bool IsVoted(std::string_view predicate) const;

  // What may stand before the exit of the check, in this order.
  enum class Besides : uint8_t { kNothing, kLiveLanes, kLine };
  // Whether the line is one of these. Otherwise nothing of them is left.
  bool IsBesides(std::string_view line);

  size_t done_ = 0;  // Statements of the check that have been read
  Besides besides_ = Besides::kNothing;
  bool is_whole_ = false;
  bool keeps_together_ = false;
  std::array<bool, 3> voted_ = {};  // wlg_ps, wlg_pl and wlg_pu are the same in all lanes.
};

// Where a loop begins: an iteration is given, the loop's label stands there, an iteration is taken.
// What is given is taken before any branch back, so that nobody comes by one in this way.
//
// Or passes of the loop are taken from the iterations that are left, one at least, all together.
// Then one of them is counted at the label, which has no other way to it than from above and from
// the branch back that stands in the same run of statements. So no passes are left over for later.
class LoopStarts {
 public:
  // Wants every line that is not among those that zero shared memory.
  Refusal Follow(std::string_view line);
  // Whether an iteration is taken at the label.
  bool Counts(std::string_view label) const { return counted_.contains(label); }
  // Whether one of the passes is counted at the label.
  bool CountsPasses(std::string_view label) const { return pass_labels_.contains(label); }
  // Whether that is so, and no other label stands behind it.
  bool IsInPass(std::string_view label) const { return !label.empty() && label == pass_label_; }

 private:
  enum class At : uint8_t {
    kElsewhere,
    kGiven,
    kLabel,
    kPassesSet,
    kPassGiven,
    kPassesTaken,
    kPassLabel
  };

  // Where the line leads from where its predecessor has led; kElsewhere for a line that may not
  // stand there, or is of no concern.
  At Next(std::string_view line, bool is_label) const;

  At at_ = At::kElsewhere;
  std::string_view label_;  // That the line before places; empty if it is something else
  absl::flat_hash_set<std::string_view> counted_;
  std::string_view pass_label_;  // The last label, if passes are counted there
  absl::flat_hash_set<std::string_view> pass_labels_;
};

// What an entry zeroes shared memory with, behind what is the hardware's own, and what waits until
// all threads have done so. In between neither is shared memory used, nor do threads part.
class SharedZeroing {
 public:
  // Whether the line is one of it, or ought to be; then `*refusal` is what is wrong with it.
  // `may_begin` says whether nothing of the tenant's stands above and wlg_smem is set.
  bool Follow(std::string_view line, bool may_begin, Refusal* refusal);
  // Threads have not waited for each other yet.
  bool is_awaited() const { return step_ == Step::kZeroed; }
  bool is_complete() const { return step_ == Step::kAwaited && done_ == 0; }
  // Nothing of it has been read.
  bool is_none() const { return step_ == Step::kNone && done_ == 0; }

 private:
  enum class Step : uint8_t { kNone, kZeroed, kAwaited };
  bool FollowLines(absl::Span<const std::string_view> lines, std::string_view line,
                   Refusal* refusal);

  Step step_ = Step::kNone;
  size_t done_ = 0;  // Lines of the next step that have been read
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_SEQUENCES_H_
