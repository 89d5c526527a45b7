// Fuzz target: loads PTX, lowers its kernels and runs a block of each for a moment. Whatever the
// text says, the executor must not touch memory that is not the kernel's.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/log/log.h"
#include "server/device/cpu/execution/block.h"
#include "server/device/cpu/memory/device_heap.h"
#include "server/device/cpu/memory/host_budget.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/cpu/modules/cpu_module.h"
#include "server/device/cpu/output/print_buffer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace warpline;
  using namespace warpline::cpu;
  SetLogLevel(static_cast<LogLevel>(static_cast<int>(LogLevel::kError) + 1));
  MemoryMap memory;
  DeviceHeap heap(&memory);
  PrintBuffer output;
  HostBudget budget(uint64_t{1} << 30);
  std::shared_ptr<CpuModule> module;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string error;
  if (CpuModule::Load(text, &memory, &module, &error) != CudaResult::kSuccess) return 0;
  for (const std::string& name : module->KernelNames()) {
    std::shared_ptr<Kernel> kernel;
    if (module->FindKernel(name, &kernel) != CudaResult::kSuccess) continue;
    const std::vector<std::byte> params(kernel->param_bytes);
    LaunchShape shape;
    shape.code = &kernel->code;
    shape.memory = &memory;
    shape.params = params;
    // A part of a warp, behind a whole one or, where the kernel needs it, a warpgroup.
    shape.block = {kernel->code.warpgroup_multiplies.empty() ? 40u : 136u, 1, 1};
    shape.dynamic_shared_bytes = 64;
    shape.output = &output;
    shape.heap = &heap;
    shape.budget = &budget;
    Block block(shape);
    if (!block.ok()) continue;
    block.Start(0);
    for (int pass = 0; pass < 10 && block.Run() == Block::Outcome::kMoreToDo; ++pass) {
    }
  }
  return 0;
}
