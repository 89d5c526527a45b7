// The names that a module defines, with their places.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_MODULE_SYMBOLS_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_MODULE_SYMBOLS_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "ptx/ast.h"

namespace warpline::cpu {

// Borrows the syntax tree.
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
  // Functions whose address a variable or an instruction takes: what indirect calls may reach.
  std::vector<const ptx::Function*> address_taken;

  // 0 for a function that has none: it has no body, or is a kernel.
  uint64_t AddressOf(const ptx::Function* function) const {
    const auto it = function_addresses.find(function);
    return it == function_addresses.end() ? 0 : it->second;
  }
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_MODULE_SYMBOLS_H_
