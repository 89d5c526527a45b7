// Turns a kernel of a PTX module into code that the executor runs.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_LOWERING_H_

#include "absl/status/statusor.h"
#include "ptx/ast.h"
#include "server/device/cpu/lowering/module_symbols.h"
#include "server/device/cpu/machine/kernel_code.h"

namespace warpline::cpu {

// UNIMPLEMENTED, naming the instruction and its line, for what this device does not do;
// INVALID_ARGUMENT for PTX that is not sound. Thread-safe.
absl::StatusOr<KernelCode> Lower(const ModuleSymbols& symbols, const ptx::Function& kernel);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_LOWERING_H_
