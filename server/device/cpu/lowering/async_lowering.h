// cp.async and mbarrier.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_ASYNC_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_ASYNC_LOWERING_H_

#include "ptx/ast.h"
#include "ptx/instruction_set.h"
#include "server/device/cpu/lowering/operand_lowering.h"

namespace warpline::cpu {

// Methods that return false have recorded an error. Thread-compatible.
class AsyncLowering : private OperandLowering {
 public:
  explicit AsyncLowering(const FunctionContext& context) : OperandLowering(context) {}

  bool Copy(const ptx::Instruction& in, const ptx::Description& what);
  bool ArriveAfterCopies(const ptx::Instruction& in, const ptx::Description& what);
  // --- mbarrier
  bool Init(const ptx::Instruction& in, const ptx::Description& what);
  bool Arrive(const ptx::Instruction& in, const ptx::Description& what);
  bool Test(const ptx::Instruction& in, const ptx::Description& what);
  bool Pending(const ptx::Instruction& in);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_ASYNC_LOWERING_H_
