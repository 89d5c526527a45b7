// Turns a kernel of a PTX module into code that the executor runs.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_LOWERING_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_LOWERING_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "ptx/ast.h"
#include "server/device/cpu/machine/kernel_code.h"

namespace warpline::cpu {

// The names that a module defines. Borrows the syntax tree.
struct ModuleSymbols {
  struct Global {
    uint64_t address = 0;
    uint64_t bytes = 0;
    const ptx::Variable* variable = nullptr;
  };
  std::unordered_map<std::string, Global> globals;  // .global and .const
  std::unordered_map<std::string, const ptx::Variable*> shared;
  std::unordered_map<std::string, const ptx::Function*> functions;  // The one with a body, if any.
  std::unordered_map<const ptx::Function*, uint64_t> function_addresses;
  // Functions whose address a variable or an instruction takes; indirect calls may reach these.
  std::vector<const ptx::Function*> address_taken;

  // Returns 0 for a function without an address, which has no body or is a kernel.
  uint64_t AddressOf(const ptx::Function* function) const {
    const auto it = function_addresses.find(function);
    return it == function_addresses.end() ? 0 : it->second;
  }
};

// UNIMPLEMENTED, naming the instruction and its line, for an instruction that this device does not
// have; INVALID_ARGUMENT for PTX that is not sound. Thread-safe.
absl::StatusOr<KernelCode> Lower(const ModuleSymbols& symbols, const ptx::Function& kernel);

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_LOWERING_H_
