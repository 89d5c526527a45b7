// Loads, stores and atomics.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_MEMORY_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_MEMORY_LOWERING_H_

#include <array>
#include <cstddef>

#include "ptx/ast.h"
#include "ptx/instruction_set.h"
#include "server/device/cpu/lowering/operand_lowering.h"

namespace warpline::cpu {

// Methods that return false have recorded an error. Thread-compatible.
class MemoryLowering : private OperandLowering {
 public:
  explicit MemoryLowering(const FunctionContext& context) : OperandLowering(context) {}

  bool Load(const ptx::Instruction& in, const ptx::Description& what);
  bool Store(const ptx::Instruction& in, const ptx::Description& what);
  bool Update(const ptx::Instruction& in, const ptx::Description& what);

 private:
  // The registers or literals of a load or store; one where it is no vector.
  struct Elements {
    std::array<const Operand*, 4> operands{};
    size_t count = 0;
  };
  bool ElementsOf(const ptx::Instruction& in, const ptx::Description& what, Elements* elements);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_MEMORY_LOWERING_H_
