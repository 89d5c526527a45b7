// Barriers and exchanges between lanes.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_SYNC_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_SYNC_LOWERING_H_

#include "ptx/ast.h"
#include "server/device/cpu/lowering/operand_lowering.h"

namespace warpline::cpu {

// Methods that return false have recorded an error. Thread-compatible.
class SyncLowering : private OperandLowering {
 public:
  explicit SyncLowering(const FunctionContext& context) : OperandLowering(context) {}

  bool BlockBarrier(const ptx::Instruction& in);
  bool WarpBarrier(const ptx::Instruction& in);
  bool Shuffle(const ptx::Instruction& in);
  bool Vote(const ptx::Instruction& in);
  bool Match(const ptx::Instruction& in);
  bool Reduce(const ptx::Instruction& in);
  bool ActiveMask(const ptx::Instruction& in);
  bool Elect(const ptx::Instruction& in);
  bool MoveTile(const ptx::Instruction& in);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_SYNC_LOWERING_H_
