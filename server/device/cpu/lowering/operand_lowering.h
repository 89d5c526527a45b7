// Operands of instructions: registers, special registers, literals, addresses of symbols and
// memory.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_OPERAND_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_OPERAND_LOWERING_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ptx/ast.h"
#include "ptx/instruction_set.h"
#include "ptx/printer.h"
#include "ptx/types.h"
#include "server/device/cpu/lowering/code_builder.h"
#include "server/device/cpu/lowering/kernel_context.h"
#include "server/device/cpu/lowering/scopes.h"
#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

// The function that is being lowered. All is borrowed.
struct FunctionContext {
  KernelContext* kernel = nullptr;
  const ptx::Function* function = nullptr;
  uint32_t index = 0;  // Of the function in the kernel; 0 is the kernel itself.
  CodeBuilder* code = nullptr;
  Scopes* scopes = nullptr;
};

// What the classes that lower a family of instructions have in common; made anew for each
// instruction. Methods that return false have recorded an error. Thread-compatible.
class OperandLowering {
 protected:
  using Instruction = ptx::Instruction;
  using Operand = ptx::Operand;

  explicit OperandLowering(const FunctionContext& context)
      : context_(context),
        kernel_(context.kernel),
        function_(*context.function),
        code_(*context.code),
        scopes_(*context.scopes) {}

  // --- `code` is a letter of AluRow::operands.
  bool Source(const Operand& operand, char code, uint32_t* slot, bool* negated = nullptr);
  bool Destination(const Operand& operand, char code, uint32_t* slot);
  bool RegisterOf(const Operand& operand, Symbol* symbol);  // False without error if not one.
  bool Predicate(const Operand& operand, uint32_t* slot, bool* negated);

  // --- Addresses.
  // False, without an error, for what this device does not have.
  bool SpaceOf(ptx::StateSpace space, Space* out) const;
  // Fills the address fields of `op`, which must not have been emitted yet: this may emit others.
  bool ResolveAddress(const Operand& operand, Space space, Op* op);
  // The address of an access as a generic one, of 64 bits, for each lane.
  bool GenericAddress(const Instruction& in, const ptx::MemoryAccess& access, uint32_t* slot);

  // --- Of the builder.
  bool Invalid(std::string_view text) { return code_.Invalid(text); }
  bool Unsupported(std::string_view text) { return code_.Unsupported(text); }
  bool Unsupported(const Instruction& in) { return code_.Unsupported(ptx::Print(in)); }
  uint32_t NewSlot(Width width) { return code_.NewSlot(width); }
  uint32_t Constant(Width width, uint64_t bits) { return code_.Constant(width, bits); }
  Op& Emit(OpKind kind) { return code_.Emit(kind); }
  Op& EmitAlu(const AluRow& row) { return code_.EmitAlu(row); }
  Op& EmitHandler(MemoryFn fn) { return code_.EmitHandler(fn); }
  void EmitPrepared(const Op& op) { code_.EmitPrepared(op); }
  bool EmitNamed(std::string_view mnemonic, uint32_t d, uint32_t a, uint32_t b = kNoSlot,
                 uint32_t c = kNoSlot) {
    return code_.EmitNamed(mnemonic, d, a, b, c);
  }
  // Lets all lanes of the warp come together, wherever they come from.
  void MeetWholeWarp() { code_.MeetWholeWarp(); }
  const Symbol* Find(const std::string& name) { return scopes_.Find(name); }

  const FunctionContext& context_;
  KernelContext* const kernel_;
  const ptx::Function& function_;
  CodeBuilder& code_;
  Scopes& scopes_;

 private:
  bool SymbolAddress(const Operand& operand, char code, uint32_t* slot, bool* found);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_OPERAND_LOWERING_H_
