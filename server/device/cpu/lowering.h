// Turns a kernel of a PTX module into code that the executor runs.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_H_

#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "guard/ptx/ast.h"
#include "server/device/cpu/op.h"

namespace warpline::cpu {

// The names a module defines. Borrows the syntax tree.
struct ModuleSymbols {
  struct Global {
    uint64_t address = 0;
    uint64_t bytes = 0;
    const ptx::Variable* variable = nullptr;
  };
  std::unordered_map<std::string, Global> globals;  // .global and .const
  std::unordered_map<std::string, const ptx::Variable*> shared;
  std::unordered_map<std::string, const ptx::Function*> functions;  // The one with a body, if any.
};

// UNIMPLEMENTED, naming the instruction and its line, for what this device does not do;
// INVALID_ARGUMENT for PTX that is not sound. Thread-safe.
absl::StatusOr<KernelCode> Lower(const ModuleSymbols& symbols, const ptx::Function& kernel);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_H_
