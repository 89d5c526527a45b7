// What the functions of one kernel share while they are lowered.
#ifndef WARPLINE_SERVER_DEVICE_CPU_LOWERING_KERNEL_CONTEXT_H_
#define WARPLINE_SERVER_DEVICE_CPU_LOWERING_KERNEL_CONTEXT_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ptx/ast.h"
#include "server/device/cpu/lowering/module_symbols.h"
#include "server/device/cpu/machine/kernel_code.h"

namespace warpline::cpu {

// Where results and parameters of a .func live in its frame: byte offsets of the local frame, or
// register slots.
struct Formal {
  bool is_register = false;
  uint32_t at = 0;
  uint32_t bytes = 0;  // Per lane for a register, 0 for a predicate.
};
// A call through a register: where its arguments and results are in the caller's frame.
struct IndirectCall {
  uint32_t caller = 0;
  std::vector<Formal> arguments;
  std::vector<Formal> results;
};
struct Formals {
  std::vector<Formal> results;
  std::vector<Formal> params;
  uint32_t slot_bytes = 0;
  uint32_t local_bytes = 0;
};
Formals LayOutFormals(const ptx::Function& function);

// What functions of one kernel share while they are lowered.
struct KernelContext {
  const ModuleSymbols* symbols = nullptr;
  std::unordered_map<const ptx::Variable*, uint64_t> shared_offsets;
  std::unordered_map<const ptx::Function*, uint32_t> function_index;
  std::vector<CallSite> calls;
  std::vector<IndirectCall> indirect_calls;
  std::vector<MatrixSite> matrices;
  std::vector<WarpgroupSite> warpgroup_multiplies;
};

inline constexpr uint64_t kMaxLocalBytes = 512 << 10;  // CUDA's limit for a thread

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_LOWERING_KERNEL_CONTEXT_H_
