// A context's modules: loaded code, its kernels and its variables.
#ifndef WARPLINE_SERVER_DEVICE_FACETS_MODULES_H_
#define WARPLINE_SERVER_DEVICE_FACETS_MODULES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Thread-safe. `image` is a fatbin container, a cubin, or PTX text; it is not kept.
class Modules {
 public:
  static constexpr Capabilities kGives = {};

  virtual ~Modules() = default;

  virtual CudaResult LoadModule(std::string_view image, ModuleId* module) = 0;
  // The same with options. `log` is filled whatever the result.
  virtual CudaResult LoadModuleJit(std::string_view image, absl::Span<const JitOption> options,
                                   JitLog* log, ModuleId* module) = 0;
  // Loads what LoadModule() left for later, and returns what an eager load would have.
  virtual CudaResult CheckModule(ModuleId module) = 0;
  // Waits for kernels of the module that are running.
  virtual CudaResult UnloadModule(ModuleId module) = 0;
  // Names of the module's kernels.
  virtual CudaResult Kernels(ModuleId module, std::vector<std::string>* names) = 0;
  virtual CudaResult FindKernel(ModuleId module, const std::string& name, KernelId* kernel) = 0;

  // Address and size of a `.global` or `.const` variable, managed or not; kNotFound.
  virtual CudaResult FindGlobal(ModuleId module, const std::string& name, uint64_t* address,
                                uint64_t* bytes) = 0;
  // The managed variables among which `address`, from FindGlobal(), lies; `*bytes` 0 when it is not
  // managed.
  virtual CudaResult ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) = 0;
  // A block of kBlockBytes from the memory that the backend itself cuts modules' variables from,
  // and the return of one. Capability::kVariableBlocks, which a backend lacks whose variables lie
  // at the same place in every process anyway.
  virtual CudaResult TakeBlock(uint64_t* address) = 0;
  virtual void FreeBlock(uint64_t address) = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_MODULES_H_
