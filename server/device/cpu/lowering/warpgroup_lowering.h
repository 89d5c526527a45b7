// wgmma: the multiply of four warps, and what orders it.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_WARPGROUP_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_WARPGROUP_LOWERING_H_

#include <cstddef>

#include "ptx/ast.h"
#include "server/device/cpu/lowering/operand_lowering.h"
#include "server/device/cpu/machine/kernel_code.h"

namespace warpline::cpu {

// Methods that return false have recorded an error. Thread-compatible.
class WarpgroupLowering : private OperandLowering {
 public:
  explicit WarpgroupLowering(const FunctionContext& context) : OperandLowering(context) {}

  bool Multiply(const ptx::Instruction& in);
  // wgmma.fence, wgmma.commit_group, wgmma.wait_group.
  bool Order(const ptx::Instruction& in);

 private:
  bool ReadD(const Operand& operand, WarpgroupSite* site);
  bool ReadA(const Operand& operand, WarpgroupSite* site);
  // Reads the literals behind the first four operands.
  bool ReadLiterals(const ptx::Instruction& in, WarpgroupSite* site);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_WARPGROUP_LOWERING_H_
