// What the guard registers are known to hold at one place of a function's code.
//
// Only the statements of the contract's fences write these registers, and each is allowed only
// where the registers that it reads hold what it needs. So a register's state says what every
// value that it can have there has in common; nothing is known at a label. Thread-compatible.
#ifndef WARPLINE_GUARD_VERIFY_FENCES_H_
#define WARPLINE_GUARD_VERIFY_FENCES_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "guard/verify/alignments.h"
#include "guard/verify/forms.h"
#include "guard/verify/names.h"
#include "guard/verify/policy.h"
#include "guard/verify/reader.h"

namespace warpline::guard {

// What wlg_stride may be bounded to: the stride of a matrix, and the bytes of a bulk copy, which
// are less than the zone behind an arena.
inline constexpr int64_t kMostStride = 65536;
inline constexpr int64_t kMostBulk = 1048576;

// The numbers that the statements of one function may use.
struct Limits {
  Policy policy;
  int target = 0;          // Of .target sm_90: 90
  int64_t locals = 0;      // T, the bytes of wlg_locals in each entry; 0 if the module has none
  int64_t constants = 0;   // N, the bytes of wlg_const
  int64_t parameters = 0;  // Bytes of the entry's parameters; 0 in a .func
  bool is_entry = false;
  bool is_wide = false;  // %tid.x is not the same for all threads, as far as ptxas knows.
  std::string_view first_parameter;  // The name; empty if the function has none
};

// Which registers the prologue of the function has set.
struct Prologue {
  bool base = false;
  bool constants = false;
  bool parameters = false;
  bool local = false;
  bool smem = false;
  bool iterations = false;
};

// What is known of the value in a guard register.
struct Value {
  enum class Holds : uint8_t {
    kNothing,
    kRaw,         // Something that has yet to be confined
    kConfined,    // wlg_hi: the upper half of an address in the arena
    kInArena,     // wlg_at: an address in the arena
    kShared,      // wlg_off: an offset in shared memory; generic in wlg_at after its leg
    kLocal,       // wlg_off: an offset in wlg_locals; in wlg_at, an address in it
    kParameters,  // Likewise in the entry's parameters
    kConstants,   // Likewise in wlg_const
    kPace,        // wlg_at: the address of the pace word; wlg_t: the word
  };
  // How far wlg_off has come from X to an address.
  enum class Stage : uint8_t { kDistance, kBounded, kAddress, kGeneric };

  Holds holds = Holds::kNothing;
  Stage stage = Stage::kDistance;
  int64_t bytes = 0;      // The most that may be read or written from there
  int64_t alignment = 1;  // The value is a multiple of it.
};

// What is known of all of them.
struct GuardState {
  Value lo, hi, at, off, s, t;
  std::array<Value, kGroups> groups;
  bool has_shared_window = false;  // wlg_ps
  bool has_local_window = false;   // wlg_pl
  bool is_stopping = false;        // wlg_ps says whether the thread is to stop ...
  bool is_unpaced = false;         // ... or whether it goes as fast as it can.
  bool may_iterate = false;        // wlg_pl is true only if some iterations are left ...
  // ... or only if some of a loop's passes are. On these no lanes vote: those that have some would
  // keep them where all leave the loop.
  bool may_pass = false;
  bool has_shared_leg = false;  // wlg_at went through the shared leg ...
  bool has_local_leg = false;   // ... and through the local one after it.
  int64_t stride_bound = 0;     // Of what wlg_stride holds; 0 if it is not bounded
  // wlg_t has no other bits than those of this number; 0 if it may have any.
  int64_t part = 0;
  bool has_asked = false;    // The thread has ended here if it is to stop ...
  bool has_renewed = false;  // ... and otherwise has new iterations ...
  bool may_go_on = false;    // ... and has napped if it is to go slowly.
};

// Follows the guard registers through the statements of one function, in their order.
class Fences {
 public:
  // Both must outlive this. `scope` is that of the function.
  Fences(const Limits* limits, const Scope* scope, const Alignments* alignments)
      : limits_(*limits), scope_(*scope), alignments_(*alignments) {}

  // Checks and follows a statement that writes a guard register. It has no predicate.
  Refusal Apply(std::string_view statement);
  // Something stands here that does not belong to the prologue, and so the prologue has ended.
  void EndPrologue() { in_prologue_ = false; }
  // Nothing stands above but declarations and statements of the prologue.
  bool in_prologue() const { return in_prologue_; }
  // A label stands here: nothing is known but what the prologue has set.
  void Reset();
  // wlg_s and wlg_ps hold something else.
  void ForgetShared();
  // A thread ends here where wlg_ps holds.
  void EndWhereStopping() { now_.has_asked = now_.has_asked || now_.is_stopping; }
  // A thread sleeps here for as long as wlg_t says. Returns whether that is the nap of a poll, of
  // which there is one.
  bool Nap();

  const Prologue& prologue() const { return prologue_; }
  const GuardState& now() const { return now_; }
  // The most iterations that a thread may make until it asks whether to stop.
  int64_t iterations() const { return iterations_; }
  // The most until it asks for the first time.
  int64_t first_iterations() const { return first_iterations_; }

 private:
  Refusal ApplyPrologue(Step step);
  Refusal ApplyArena(Step step, int64_t number);
  Refusal ApplyShared(const Match& match);
  Refusal ApplyGroup(const Match& match, Value* group);
  Value Clamped(const Value& raw) const;
  int64_t AlignmentOf(const Match& match) const;
  Refusal ApplyWindow(Step step, int64_t number);
  Refusal ApplyLoop(Step step);
  Refusal ApplyVote(Step step);
  void ForgetStop();
  Refusal SetIterations(int64_t number);
  Refusal RenewIterations(int64_t number);
  Refusal Measure(Value::Holds window, bool base_is_set);
  Refusal Bound(int64_t most);
  Refusal Arrive(Value::Holds window);

  const Limits& limits_;
  const Scope& scope_;
  const Alignments& alignments_;
  Prologue prologue_;
  bool in_prologue_ = true;
  Step last_prologue_step_ = Step::kNone;
  int64_t iterations_ = 0;
  int64_t first_iterations_ = 0;
  GuardState now_;
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_FENCES_H_
