// The modules of the CPU device, their kernels and variables.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_MODULES_H_
#define WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_MODULES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cpu/context/cpu_shared.h"
#include "server/device/cpu/memory/memory_map.h"
#include "server/device/cpu/modules/module_table.h"
#include "server/device/cpu/streams/stream_set.h"
#include "server/device/facets/modules.h"

namespace warpline::cpu {

// Thread-safe.
class CpuModules : public virtual device::Modules {
 public:
  explicit CpuModules(CpuShared* shared)
      : shared_(shared),
        memory_(shared->memory()),
        streams_(shared->streams()),
        modules_(shared->modules()) {}

  CudaResult LoadModule(std::string_view image, device::ModuleId* module) override;
  // The options are meant for compilers and have no effect. What is wrong with the image goes into
  // the log.
  CudaResult LoadModuleJit(std::string_view image, absl::Span<const device::JitOption> options,
                           device::JitLog* log, device::ModuleId* module) override;
  // LoadModule() leaves nothing for later.
  CudaResult CheckModule(device::ModuleId) override { return CudaResult::kSuccess; }
  CudaResult UnloadModule(device::ModuleId module) override;
  CudaResult Kernels(device::ModuleId module, std::vector<std::string>* names) override;
  CudaResult FindKernel(device::ModuleId module, const std::string& name,
                        device::KernelId* kernel) override;
  CudaResult FindGlobal(device::ModuleId module, const std::string& name, uint64_t* address,
                        uint64_t* bytes) override;
  CudaResult WriteVariable(device::ModuleId module, const std::string& name, std::string_view bytes,
                           device::StreamId stream) override;
  CudaResult ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) override;
  // Refuses: variables are at the same place in every process.
  CudaResult TakeBlock(uint64_t*) override {
    return device::Lacks(device::Capability::kVariableBlocks);
  }
  void FreeBlock(uint64_t) override {}

 private:
  CpuShared* const shared_;
  MemoryMap& memory_;
  StreamSet& streams_;
  ModuleTable& modules_;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_MODULES_H_
