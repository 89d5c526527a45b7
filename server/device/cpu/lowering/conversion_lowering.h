// cvt: a chain of steps where registers are wider than types, or types have 8 bits; of f16, bf16
// and tf32, by way of f32.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_CONVERSION_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_CONVERSION_LOWERING_H_

#include <string>

#include "ptx/ast.h"
#include "server/device/cpu/lowering/operand_lowering.h"

namespace warpline::cpu {

// Methods that return false have recorded an error. Thread-compatible.
class ConversionLowering : private OperandLowering {
 public:
  explicit ConversionLowering(const FunctionContext& context) : OperandLowering(context) {}

  bool Convert(const ptx::Instruction& in);

 private:
  // half_conversion.cc
  static bool IsOfHalves(const ptx::Instruction& in);
  bool ConvertHalf(const ptx::Instruction& in);
  bool ConvertPair(const ptx::Instruction& in, const std::string& rounding, bool relu);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_CONVERSION_LOWERING_H_
