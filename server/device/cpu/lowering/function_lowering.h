// Lowers one function body.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_FUNCTION_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_FUNCTION_LOWERING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "ptx/ast.h"
#include "ptx/instruction_set.h"
#include "server/device/cpu/lowering/code_builder.h"
#include "server/device/cpu/lowering/kernel_context.h"
#include "server/device/cpu/lowering/operand_lowering.h"
#include "server/device/cpu/lowering/scopes.h"

namespace warpline::cpu {

// Thread-compatible.
class FunctionLowering {
 public:
  // `index`: of the function in the kernel; 0 is the kernel itself. All is borrowed.
  FunctionLowering(KernelContext* kernel, const ptx::Function& function, uint32_t index)
      : function_(function),
        scopes_(kernel, &function, &code_),
        context_{kernel, &function, index, &code_, &scopes_} {}
  FunctionLowering(const FunctionLowering&) = delete;
  FunctionLowering& operator=(const FunctionLowering&) = delete;

  // Once. As Lower().
  absl::Status Run();

  // --- Results.
  CodeBuilder& code() { return code_; }
  uint32_t frame_bytes() const;
  uint32_t local_bytes() const;

 private:
  bool LowerBody();
  bool LowerStatement(const ptx::Statement& statement);
  bool LowerInstruction(const ptx::Instruction& in);
  bool LowerKnown(const ptx::Instruction& in, const ptx::Description& what);

  const ptx::Function& function_;
  CodeBuilder code_;
  Scopes scopes_;
  const FunctionContext context_;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_FUNCTION_LOWERING_H_
