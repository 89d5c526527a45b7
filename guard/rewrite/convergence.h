// Where the lanes of a warp stay together once they have been seen to be.
//
// Instructions of a warp need a check that it is whole (docs/guarded-ptx.md), which may end it.
// Behind a check all lanes go on together as long as branches are taken by all or by none. So a
// label needs no check of its own if whoever comes to it comes as a whole warp, and a loop does
// without one: where multiplications are under way, a check in each turn has ptxas wait for them.
#ifndef WARPLINE_GUARD_REWRITE_CONVERGENCE_H_
#define WARPLINE_GUARD_REWRITE_CONVERGENCE_H_

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "guard/rewrite/fences.h"
#include "guard/rewrite/flatten.h"
#include "guard/rewrite/uniform_registers.h"
#include "ptx/ast.h"

namespace warpline::guard {

// Whether the function has something to which all lanes of a warp have to come together, barriers
// of a block being such or not.
bool NeedsWholeWarps(const FlatFunction& function, bool at_barriers);

// What is known of one function, found by trying: a function is written as if all its labels were
// such, whoever writes it says which are not, and writes it again until none is left over.
// Thread-compatible.
class Convergence {
 public:
  // Nothing is known of a function without instructions to which only whole warps come; they are
  // NeedsWholeWarp(). `function` must outlive this.
  Convergence(const FlatFunction& function, bool at_barriers);

  // Whether lanes that are together stay so at a branch or exit: it has no predicate, or one that
  // is the same for all.
  bool KeepsTogether(const ptx::Instruction& branch) const;
  // Whether only whole warps come to the label, as far as is known.
  bool IsJoined(const std::string& label) const { return joined_.contains(label); }
  bool HasJoined() const { return !joined_.empty(); }
  // Others come to it as well.
  void Part(const std::string& label) { parted_.insert(label); }
  // An instruction of a warp needs no check since its warp came together to a label.
  void NoteUse() { is_of_use_ = true; }
  // Whether what was written stands. Otherwise it has to be written again.
  bool Settle();

 private:
  std::optional<UniformRegisters> uniform_;
  std::unordered_set<std::string> joined_;
  std::unordered_set<std::string> parted_;
  bool is_of_use_ = false;
  int tries_ = 0;
};

// Has `result`, a guard's predicate, say for all lanes whether a predicate, which may be negated,
// holds in `mode` of them: "any" or "all".
void AddVote(std::string_view mode, std::string_view result, std::string_view predicate,
             bool negated, FenceWriter* code);

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_CONVERGENCE_H_
