// mma, wmma, ldmatrix, stmatrix.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_MATRIX_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_MATRIX_LOWERING_H_

#include "ptx/ast.h"
#include "ptx/instruction_set.h"
#include "server/device/cpu/lowering/operand_lowering.h"
#include "server/device/cpu/machine/kernel_code.h"
#include "server/device/cpu/machine/op.h"

namespace warpline::cpu {

// Methods that return false have recorded an error. Thread-compatible.
class MatrixLowering : private OperandLowering {
 public:
  explicit MatrixLowering(const FunctionContext& context) : OperandLowering(context) {}

  bool Multiply(const ptx::Instruction& in);
  bool MultiplyWmma(const ptx::Instruction& in);
  bool AccessWmma(const ptx::Instruction& in, const ptx::MemoryAccess& access);
  bool AccessTiles(const ptx::Instruction& in, const ptx::MemoryAccess& access);

 private:
  bool Registers(const Operand& operand, bool destination, bool exact, Matrix* matrix);
  bool EmitSite(MatrixSite site, MemoryFn fn);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_MATRIX_LOWERING_H_
