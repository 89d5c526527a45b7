// Verifies the body of one function against what its module declares.
#ifndef WARPLINE_GUARD_VERIFY_FUNCTION_H_
#define WARPLINE_GUARD_VERIFY_FUNCTION_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "guard/verify/accesses.h"
#include "guard/verify/alignments.h"
#include "guard/verify/barriers.h"
#include "guard/verify/declarations.h"
#include "guard/verify/entry_poll.h"
#include "guard/verify/fences.h"
#include "guard/verify/instructions.h"
#include "guard/verify/names.h"
#include "guard/verify/policy.h"
#include "guard/verify/reader.h"
#include "guard/verify/sequences.h"
#include "guard/verify/written.h"

namespace warpline::guard {

struct Function {
  Head head;
  Line line;                 // Of the head
  std::string_view body;     // The lines between { and }
  size_t body_line = 0;      // The number of the line of {
  bool is_one_wide = false;  // Its blocks have one thread in the direction of x.
};

// What is known of a module once its text has been read, without the statements of its functions.
struct Module {
  Policy policy;
  int target = 0;         // Of .target sm_90: 90
  int64_t constants = 0;  // Bytes of wlg_const
  int64_t locals = 0;     // T, the bytes of wlg_locals in the entries; 0 if none has it
  Scope names{nullptr};
  std::vector<Function> functions;
  absl::flat_hash_map<std::string_view, size_t> definitions;  // By name; indices of `functions`
};

// What the functions of a module have to keep to together.
struct FunctionFacts {
  std::vector<size_t> callees;   // Indices of the module's functions, one for each call
  int64_t instructions = 0;      // Each as often as WeightOf() says
  int64_t iterations = 0;        // That a thread makes at most until it asks whether to stop
  int64_t first_iterations = 0;  // That it makes at most until it asks for the first time
  int64_t unasked_blocks = 0;    // The largest grid that does not ask where a block begins
  bool uses_shared = false;
  bool zeroes_shared = false;
  Barriers barriers;  // If hardened
};

// One body. Everything that is passed to it must outlive it. Thread-compatible.
class FunctionVerifier {
 public:
  FunctionVerifier(const Module& module, const Function& function);
  FunctionVerifier(const FunctionVerifier&) = delete;
  FunctionVerifier& operator=(const FunctionVerifier&) = delete;

  // Call it once.
  Finding Verify(FunctionFacts* facts);

 private:
  struct Branch {
    Line line;
    std::string_view label;
  };

  Refusal DeclareParameters();
  Refusal VerifyLine(const Line& line);
  Refusal VerifyBehindPoll(const Line& line);
  Refusal VerifyLabel(std::string_view line);
  Refusal VerifyDeclaration(std::string_view line);
  Refusal DeclareRegisters(const Variable& variable);
  Refusal DeclareVariable(const Variable& variable);
  Refusal VerifyInstruction(const Line& line, bool passed);
  bool LocalsAreZero() const;
  Refusal VerifyBranch(const Line& line);
  // A statement of a sequence of the guard's that stands as a whole.
  void FollowOwn(std::string_view line);
  // One of those that zero shared memory, or that await it.
  void FollowZeroing(std::string_view line, bool awaits);
  Refusal FollowWholeWarp(const Line& line);
  Refusal VerifyBarrier(const Line& line);
  Refusal VerifyPass();
  Refusal VerifyMemory(const Description& description);
  Refusal VerifyMove();
  Refusal VerifyCall(bool passed);
  Refusal VerifyList(const Operand& list, const std::vector<Variable>& formal, bool is_arguments);
  Refusal VerifyPlain(size_t index) const;
  Refusal VerifyRegister(const Operand& operand, bool may_be_guard) const;
  Refusal FollowInstruction(const Description& description);
  Refusal FollowOperands(bool writes_first);
  Refusal FollowParameters(const Description& description);
  Refusal FollowCall();
  Refusal FollowReturn() const;
  Refusal CheckWritten(const Operand& operand) const;
  void NoteWritten(const Operand& operand);

  const Module& module_;
  const Function& function_;
  Scope scope_;
  Limits limits_;
  Alignments alignments_{&scope_};
  Fences fences_;
  bool declares_ = true;        // Only declarations have been read.
  bool passed_ = false;         // The statement before has written wlg_pass.
  bool asks_at_entry_ = false;  // It has to.
  bool may_ask_ = false;        // Statements by which blocks ask may stand there.
  EntryPoll entry_poll_;
  WholeWarpCheck whole_warp_;
  LaneCounting lane_counting_;
  LeavingLanes leaving_lanes_;
  Instruction instruction_;
  Written written_;
  int64_t zeroed_ = 0;  // Bytes of wlg_locals that the entry has zeroed
  std::vector<Branch> branches_;
  // Names that branches have led to where they were no labels yet.
  absl::flat_hash_set<std::string_view> targets_;
  int64_t registers_ = 0;        // That the body declares
  int64_t parameter_bytes_ = 0;  // Of space .param, likewise
  LoopStarts loop_starts_;
  SharedZeroing zeroing_;
  bool has_begun_ = false;  // Something stands above that is the tenant's.
  FunctionFacts* facts_ = nullptr;
};

}  // namespace warpline::guard

#endif  // WARPLINE_GUARD_VERIFY_FUNCTION_H_
