// Rewrites the body of one function: fences each access, moves variables, drops what has no
// meaning, and refuses what it does not know.
#ifndef WARPLINE_GUARD_REWRITE_FUNCTION_REWRITER_H_
#define WARPLINE_GUARD_REWRITE_FUNCTION_REWRITER_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "guard/rewrite/convergence.h"
#include "guard/rewrite/counted_loops.h"
#include "guard/rewrite/fences.h"
#include "guard/rewrite/flatten.h"
#include "guard/rewrite/known_alignments.h"
#include "guard/rewrite/known_numbers.h"
#include "guard/rewrite/module_layout.h"
#include "guard/rewrite/rewrite.h"
#include "guard/rewrite/shared_groups.h"
#include "ptx/ast.h"
#include "ptx/instruction_set.h"

namespace warpline::guard {

// One of the module's variables in shared memory.
struct SharedVariable {
  uint64_t bytes = 0;  // 0 for one of dynamic size
  uint64_t alignment = 1;
};

// What a function is rewritten with. All is borrowed.
struct ModuleContext {
  const RewriteOptions* options = nullptr;
  const ModuleLayout* layout = nullptr;
  // The `.shared` variables of the module.
  const std::unordered_map<std::string, SharedVariable>* shared = nullptr;
  // The functions that can be called.
  const std::unordered_map<std::string, const FlatFunction*>* functions = nullptr;
  uint64_t local_bytes = 0;  // Of wlg_locals, in every kernel; 0 if there is none
  // The functions that may reach shared memory, themselves or by what they call.
  const std::unordered_set<std::string>* use_shared = nullptr;
  // Those to whose barriers of a block only whole warps may come.
  const std::unordered_set<std::string>* have_several_barriers = nullptr;
};

// Thread-compatible. One object for one function.
class FunctionRewriter {
 public:
  // `local_offset` is where the function's locals begin in wlg_locals. If `convergence`, which is
  // the function's and must outlive this, does not settle on what was written, that does not count.
  FunctionRewriter(const ModuleContext& module, const FlatFunction& function, uint64_t local_offset,
                   Convergence* convergence);

  // INVALID_ARGUMENT, with "line N: ...", for what cannot be guarded.
  absl::Status Rewrite(ptx::Function* result);
  // Whether threads of what was written may leave a line in RecordsHeader (guard/records.h).
  bool leaves_lines() const { return leaves_lines_; }

 private:
  absl::Status RewriteInstruction(ptx::Instruction instruction);
  // Of a variable in shared memory; 0 for another name.
  uint64_t AlignmentOf(const std::string& name) const;
  // A name for a label of the guard's own.
  std::string NewLabel(std::string_view stem);
  void Place(const std::string& label);
  // Places one of the tenant's.
  void PlaceLabel(const std::string& name);
  // Whether only whole warps come to the tenant's label that stands here.
  bool ComesTogether(const std::string& label);
  // The name of such a label in what is written.
  const std::string& JoinedName(const std::string& label);
  std::string NewJoinedLabel();
  absl::Status RewriteBranch(ptx::Instruction branch, bool was_whole);
  absl::Status RewriteCall(ptx::Instruction call);
  void RewriteTrap(const ptx::Instruction& trap);
  absl::Status RewriteMove(ptx::Instruction move);
  absl::Status RewriteConvertAddress(ptx::Instruction convert);
  absl::Status RewriteMatrixAccess(ptx::Instruction instruction);
  absl::Status RewriteGenericMatrix(const ptx::Instruction& instruction);
  absl::Status RewriteAccesses(const ptx::Description& what, ptx::Instruction instruction);
  absl::Status RewriteBulkCopy(ptx::Instruction copy);
  absl::Status RewritePart(ptx::Instruction* copy);
  absl::Status RewriteAddress(const ptx::MemoryAccess& access, bool only_shared,
                              ptx::Instruction* instruction, ptx::Operand* address);
  absl::Status RewriteVariableAddress(const ptx::MemoryAccess& access, ptx::Operand* address);
  absl::Status RewriteRegisterAddress(const ptx::MemoryAccess& access, const Symbol& symbol,
                                      bool only_shared, ptx::Instruction* instruction,
                                      ptx::Operand* address);
  // Has the instruction name barriers, threads and lanes by literals where registers hold such.
  void NameByLiterals(const ptx::Description& what, ptx::Instruction* instruction) const;
  absl::Status RewriteBlockBarrier(const ptx::Description& what, ptx::Instruction barrier);
  absl::Status RewriteElect(const ptx::Instruction& elect);
  absl::Status RewriteSkipped(ptx::Instruction instruction);
  // The first statement of the run which begins there to which all lanes of a warp have to come
  // together; null if there is none.
  const ptx::Statement* FindOfWholeWarp(const ptx::Statement* from) const;
  // Whether it is an exit by which lanes leave a whole warp of which the others count without them.
  bool CountsWhoLeaves(const ptx::Instruction& instruction, ptx::Family family) const;
  // Puts the check that all lanes of the warp are here, unless one stands before on the same way.
  // Those that are not end, and leave the line of `needs`, for which it is.
  void NeedWholeWarp(const ptx::Statement& needs);
  // The first exit of a kernel of which it can be said which lanes leave by it, where all are still
  // together; null if there is none.
  const ptx::Statement* FindFirstLeave() const;
  absl::Status CheckOperand(const ptx::Operand& operand) const;
  // Puts the address of a variable, plus `offset`, into a register. False for a name that is none.
  bool PutAddress(const std::string& name, int64_t offset, const ptx::Operand& destination,
                  const ptx::Instruction& pattern, absl::Status* status);
  void Put(ptx::Instruction instruction) { code_.Add(std::move(instruction)); }
  absl::Status Refuse(const std::string& why) const;

  const ModuleContext& module_;
  const FlatFunction& function_;
  const uint64_t local_offset_;
  const bool at_barriers_;  // Warps have to be whole there too.
  // Warps are whole without the lanes that they do not have, or that have left. Instructions of a
  // warp want all 32.
  const bool counts_lanes_;
  FenceWriter code_;
  std::optional<SharedGroups> shared_groups_;  // If hardened
  const KnownNumbers known_numbers_;
  KnownAlignments alignments_;
  const ptx::Statement* at_ = nullptr;
  std::set<std::string> scratch_;  // Registers of 32 bits that the tenant has not declared
  bool traps_ = false;             // The function has a trap, which became a call.
  bool leaves_lines_ = false;  // It has a check that leaves the line where a warp was not whole.
  bool is_whole_ = false;      // All lanes of the warp have come here together.
  bool is_joined_ = false;     // They have since a label, without a check.
  bool goes_on_ = true;        // Who was at the statement before may come here.
  Convergence& convergence_;
  std::unordered_map<std::string, std::string> joined_names_;
  int labels_ = 0;                                      // Of the guard's own
  std::unordered_set<std::string> loops_;               // Labels of loops that ask whether to stop
  std::unordered_map<std::string, std::string> again_;  // What stands before those passed so far
  // Of those, the ones whose passes can be computed.
  std::unordered_map<std::string, CountedLoop> counted_loops_;
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_REWRITE_FUNCTION_REWRITER_H_
