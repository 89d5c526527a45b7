// Arithmetic, moves, and conversions of addresses.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_ARITHMETIC_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_ARITHMETIC_LOWERING_H_

#include "ptx/ast.h"
#include "ptx/instruction_set.h"
#include "server/device/cpu/lowering/operand_lowering.h"

namespace warpline::cpu {

// Methods that return false have recorded an error. Thread-compatible.
class ArithmeticLowering : private OperandLowering {
 public:
  explicit ArithmeticLowering(const FunctionContext& context) : OperandLowering(context) {}

  bool Compute(const ptx::Instruction& in,
               const ptx::Description& what);  // By its mnemonic in the ALU table
  bool Move(const ptx::Instruction& in);
  bool ConvertAddress(const ptx::Instruction& in);
  bool TestSpace(const ptx::Instruction& in);
  // 0: there is no cache to have a policy for.
  bool CachePolicy(const ptx::Instruction& in);

 private:
  bool MoveVector(const ptx::Instruction& in, bool pack);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_ARITHMETIC_LOWERING_H_
