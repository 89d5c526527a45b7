// setp and set; of halves, by way of f32.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_COMPARISON_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_COMPARISON_LOWERING_H_

#include "ptx/ast.h"
#include "server/device/cpu/lowering/operand_lowering.h"

namespace warpline::cpu {

// Methods that return false have recorded an error. Thread-compatible.
class ComparisonLowering : private OperandLowering {
 public:
  explicit ComparisonLowering(const FunctionContext& context) : OperandLowering(context) {}

  bool SetPredicate(const ptx::Instruction& in);
  bool Set(const ptx::Instruction& in);

 private:
  // The mnemonic of the comparison and how its result is combined; types end the modifiers.
  bool ParseCompare(const ptx::Instruction& in, size_t types, std::string* key, uint64_t* combine);
  static bool IsOfHalves(const ptx::Instruction& in);
  bool SetHalfPredicate(const ptx::Instruction& in);
  bool SetHalf(const ptx::Instruction& in);
  // An operand widened to f32, or both halves of one.
  bool WidenHalf(const Operand& operand, const std::string& type, uint32_t out[2]);
  bool EmitCompare(const std::string& key, uint32_t p, uint32_t a, uint32_t b, uint32_t c,
                   uint64_t combine, bool negated);
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_COMPARISON_LOWERING_H_
