// Branches, calls, traps, fences.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_CONTROL_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_CONTROL_LOWERING_H_

#include <vector>

#include "ptx/ast.h"
#include "ptx/instruction_set.h"
#include "server/device/cpu/execution/system_calls.h"
#include "server/device/cpu/lowering/kernel_context.h"
#include "server/device/cpu/lowering/operand_lowering.h"
#include "server/device/cpu/machine/kernel_code.h"

namespace warpline::cpu {

// Methods that return false have recorded an error. Thread-compatible.
class ControlLowering : private OperandLowering {
 public:
  explicit ControlLowering(const FunctionContext& context) : OperandLowering(context) {}

  bool Branch(const ptx::Instruction& in);
  bool Call(const ptx::Instruction& in, const ptx::Description& what);
  bool Trap();
  bool Fence(const ptx::Instruction& in);
  bool Sleep(const ptx::Instruction& in);

 private:
  bool CallIndirectly(const Operand* results, uint32_t target, const Operand* arguments);
  // The handler works on registers: .param variables are loaded before and stored after it.
  bool CallSystem(const SystemCall& call, const Operand* results, const Operand* arguments);
  bool Actuals(const Operand* list, std::vector<Formal>* actuals);
  bool CopiesOf(const Operand* list, const std::vector<Formal>& formals,
                std::vector<CallCopy>* copies);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_CONTROL_LOWERING_H_
