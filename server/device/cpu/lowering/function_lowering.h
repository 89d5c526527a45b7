// Lowers one function body. Private to lowering.
//
// Methods return false after they have recorded the first error; callers return at once.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_FUNCTION_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_FUNCTION_LOWERING_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ptx/ast.h"
#include "ptx/instruction_set.h"
#include "ptx/types.h"
#include "server/device/cpu/alu/alu.h"
#include "server/device/cpu/execution/system_calls.h"
#include "server/device/cpu/lowering/lowering.h"
#include "server/device/cpu/machine/kernel_code.h"
#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

// Where a result or parameter of a .func lives in its frame: at a byte offset of the local frame,
// or in a register slot.
struct Formal {
  bool is_register = false;
  uint32_t at = 0;
  uint32_t bytes = 0;  // For a register: bytes per lane, 0 for a predicate.
};
// A call through a register, and where its arguments and results are in the caller's frame.
struct IndirectCall {
  uint32_t caller = 0;
  std::vector<Formal> arguments;
  std::vector<Formal> results;
};
struct Formals {
  std::vector<Formal> results;
  std::vector<Formal> params;
  uint32_t slot_bytes = 0;
  uint32_t local_bytes = 0;
};
Formals LayOutFormals(const ptx::Function& function);

// What the functions of one kernel share while they are lowered.
struct KernelContext {
  const ModuleSymbols* symbols = nullptr;
  std::unordered_map<const ptx::Variable*, uint64_t> shared_offsets;
  std::unordered_map<const ptx::Function*, uint32_t> function_index;
  std::vector<CallSite> calls;
  std::vector<IndirectCall> indirect_calls;
  std::vector<MatrixSite> matrices;
};

class FunctionLowering {
 public:
  FunctionLowering(KernelContext* kernel, const ptx::Function& function, uint32_t index)
      : kernel_(kernel), function_(function), index_(index) {}

  bool Run();
  absl::Status status() const { return status_; }

  // --- Results. Branch targets count from the start of `ops`.
  std::vector<Op> ops;
  std::vector<ConstantSlot> constants;
  std::vector<std::pair<Special, uint32_t>> specials;
  uint32_t frame_bytes = 0;
  uint32_t local_bytes = 0;

 private:
  using Instruction = ptx::Instruction;
  using Operand = ptx::Operand;

  struct Symbol {
    enum class Kind { kRegister, kParam, kLocal, kShared };
    Kind kind = Kind::kRegister;
    Width width = Width::k32;
    uint32_t slot = 0;  // kRegister; further elements of a vector follow
    uint32_t vector_width = 1;
    uint64_t offset = 0;  // Others: in their state space
    uint64_t bytes = 0;
    uint32_t element_bytes = 1;
  };
  struct Range {  // .reg .b32 %r<count>
    std::string prefix;
    uint32_t count;
    Width width;
    uint32_t vector_width;
  };
  struct Scope {
    uint32_t id = 0;
    std::unordered_map<std::string, Symbol> names;
    std::vector<Range> ranges;
    uint64_t local_top = 0;
  };
  using LabelKey = std::pair<uint32_t, std::string>;  // Scope and name

  // --- Errors.
  bool Invalid(std::string_view text);
  bool Unsupported(std::string_view text);
  bool Unsupported(const Instruction& instruction);

  // --- Scopes and symbols (function_lowering.cc).
  bool Prepare();
  bool LowerStatement(const ptx::Statement& statement);
  bool Declare(const ptx::Variable& variable);
  const Symbol* Find(const std::string& name);
  bool BindLabels();
  uint32_t NewSlot(Width width);
  uint32_t Constant(Width width, uint64_t bits);
  uint32_t SpecialSlot(Special special, Width width);

  // --- Operands (lower_operand.cc). `code` is a letter of AluRow::operands.
  bool Source(const Operand& operand, char code, uint32_t* slot, bool* negated = nullptr);
  bool Destination(const Operand& operand, char code, uint32_t* slot);
  bool RegisterOf(const Operand& operand, Symbol* symbol);  // False, but no error, if it is none.
  bool SymbolAddress(const Operand& operand, char code, uint32_t* slot, bool* found);
  bool Predicate(const Operand& operand, uint32_t* slot, bool* negated);

  // --- Emission.
  Op& Emit(OpKind kind);
  Op& EmitAlu(const AluRow& row);
  // Emits an op whose fields are filled in, except for its line and its guard.
  void EmitPrepared(Op op);
  // Emits an operation on slots, by its mnemonic in the ALU table.
  bool EmitNamed(std::string_view mnemonic, uint32_t d, uint32_t a, uint32_t b = kNoSlot,
                 uint32_t c = kNoSlot);

  // --- Instructions.
  bool LowerInstruction(const Instruction& in);
  bool LowerKnown(const Instruction& in, const ptx::Description& what);
  bool LowerAlu(const Instruction& in, const ptx::Description& what);  // lower_alu.cc
  bool LowerMov(const Instruction& in);
  bool LowerMovVector(const Instruction& in, bool pack);
  bool LowerSetp(const Instruction& in);
  bool LowerSet(const Instruction& in);
  bool LowerCvta(const Instruction& in);
  bool LowerIsspacep(const Instruction& in);
  bool LowerCvt(const Instruction& in);          // lower_cvt.cc
  static bool IsHalfCvt(const Instruction& in);  // lower_half.cc
  static bool IsHalfCompare(const Instruction& in);
  bool LowerHalfCvt(const Instruction& in);
  bool LowerPairCvt(const Instruction& in, const std::string& rounding, bool relu);
  bool WidenHalf(const Operand& operand, const std::string& type, uint32_t out[2]);
  bool EmitCompare(const std::string& key, uint32_t p, uint32_t a, uint32_t b, uint32_t c,
                   uint64_t combine, bool negated);
  bool LowerHalfSetp(const Instruction& in);
  bool LowerHalfSet(const Instruction& in);
  bool LowerLoad(const Instruction& in, const ptx::Description& what);  // lower_memory.cc
  bool LowerStore(const Instruction& in, const ptx::Description& what);
  bool LowerAtomic(const Instruction& in, const ptx::Description& what);
  bool LowerBranch(const Instruction& in);  // lower_control.cc
  bool LowerCall(const Instruction& in, const ptx::Description& what);
  bool LowerIndirectCall(const Operand* results, uint32_t target, const Operand* arguments);
  bool Actuals(const Operand* list, std::vector<Formal>* actuals);
  bool LowerSystemCall(const SystemCall& call, const Operand* results, const Operand* arguments);
  bool LowerCallCopies(const Operand* list, const std::vector<Formal>& formals,
                       std::vector<CallCopy>* copies);
  bool LowerTrap();
  bool LowerFence(const Instruction& in);
  bool LowerCopyAsync(const Instruction& in, const ptx::Description& what);  // lower_async.cc
  bool LowerCopyAsyncArrive(const Instruction& in, const ptx::Description& what);
  bool LowerBarrierInit(const Instruction& in, const ptx::Description& what);
  bool LowerBarrierArrive(const Instruction& in, const ptx::Description& what);
  bool LowerBarrierTest(const Instruction& in, const ptx::Description& what);
  bool LowerBarrierPending(const Instruction& in);
  // Computes the address of an access as a generic one of 64 bits, for each lane.
  bool GenericAddress(const Instruction& in, const ptx::MemoryAccess& access, uint32_t* slot);
  Op& EmitHandler(MemoryFn fn);
  bool LowerMma(const Instruction& in);  // lower_matrix.cc
  bool LowerWmmaMultiply(const Instruction& in);
  bool LowerWmmaAccess(const Instruction& in, const ptx::MemoryAccess& access);
  bool LowerTiles(const Instruction& in, const ptx::MemoryAccess& access);
  bool MatrixRegisters(const Operand& operand, bool destination, bool exact, Matrix* matrix);
  bool EmitMatrix(MatrixSite site, MemoryFn fn);
  bool LowerBlockBarrier(const Instruction& in);  // lower_sync.cc
  bool LowerWarpBarrier(const Instruction& in);
  bool LowerShfl(const Instruction& in);
  bool LowerVote(const Instruction& in);
  bool LowerMatch(const Instruction& in);
  bool LowerRedux(const Instruction& in);
  bool LowerActiveMask(const Instruction& in);

  // The registers or literals of a load or store; just one when it is no vector.
  struct Elements {
    std::array<const Operand*, 4> operands{};
    size_t count = 0;
  };
  bool ElementsOf(const Instruction& in, const ptx::Description& what, Elements* elements);
  bool SpaceOf(ptx::StateSpace space, Space* out) const;
  bool ResolveAddress(const Operand& operand, Space space, Op* op);
  bool ParseCompare(const Instruction& in, size_t types, std::string* key, uint64_t* combine);

  KernelContext* const kernel_;
  const ptx::Function& function_;
  const uint32_t index_;  // The index of this function in the kernel; 0 is the kernel itself.
  absl::Status status_;

  std::vector<Scope> scopes_;
  std::vector<uint32_t> scope_parents_;
  uint32_t next_scope_ = 0;
  std::map<LabelKey, uint32_t> label_pcs_;  // UINT32_MAX until the label is reached.
  std::vector<std::pair<size_t, LabelKey>> branches_;
  std::unordered_map<std::string, Symbol> params_;
  std::map<std::pair<Width, uint64_t>, uint32_t> constant_slots_;
  std::map<Special, uint32_t> special_slots_;
  uint32_t predicate_line_ = kNoSlot;
  uint32_t predicates_in_line_ = 0;
  uint32_t carry_ = kNoSlot;
  uint64_t local_top_ = 0;

  // These belong to the instruction that is being lowered.
  uint32_t line_ = 0;
  uint32_t guard_ = kNoSlot;
  bool guard_negated_ = false;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_FUNCTION_LOWERING_H_
