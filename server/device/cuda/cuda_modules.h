// A GPU's modules, their kernels and variables. The driver sees them as libraries.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_MODULES_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_MODULES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cuda/compiled_code.h"
#include "server/device/cuda/cuda_links.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/cuda/shared/live_set.h"
#include "server/device/facets/modules.h"

namespace warpline::device {

// Thread-safe, as the driver is.
class CudaModules : public virtual Modules, protected CudaPart {
 public:
  static constexpr Capabilities kGives = Capability::kVariableBlocks;

  explicit CudaModules(CudaMember* member)
      : CudaPart(*member), modules_(is_shared()), compiler_(member) {}
  ~CudaModules() override;

  CudaResult LoadModule(std::string_view image, ModuleId* module) override;
  CudaResult LoadModuleJit(std::string_view image, absl::Span<const JitOption> options, JitLog* log,
                           ModuleId* module) override;
  CudaResult CheckModule(ModuleId module) override;
  CudaResult UnloadModule(ModuleId module) override;
  CudaResult Kernels(ModuleId module, std::vector<std::string>* names) override;
  CudaResult FindKernel(ModuleId module, const std::string& name, KernelId* kernel) override;
  CudaResult FindGlobal(ModuleId module, const std::string& name, uint64_t* address,
                        uint64_t* bytes) override;
  CudaResult WriteVariable(ModuleId module, const std::string& name, std::string_view bytes,
                           StreamId stream) override;
  CudaResult ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) override;
  CudaResult TakeBlock(uint64_t* address) override;
  void FreeBlock(uint64_t address) override;

 protected:
  // Options of the driver, and what it makes of an image with them.
  struct LibraryOptions {
    std::vector<CUjit_option> ids;
    std::vector<void*> values;
  };
  virtual CUresult LoadLibrary(const std::string& image, LibraryOptions options,
                               CUlibrary* library);
  virtual CUresult UnloadLibrary(CUlibrary library);
  // Ends a load: returns its result, and the library that came of it.
  CudaResult Keep(CUresult result, CUlibrary library, ModuleId* module);
  // Unloads what is left. The last class that overrides UnloadLibrary() calls it when it ends.
  void UnloadAll();

 private:
  // Null where the driver is to load the image as it is: it has machine code for the device, or
  // something that does not compile.
  std::shared_ptr<const std::string> Compiled(std::string_view image);

  LiveSet<ModuleId> modules_;
  CudaLinks compiler_;
  CompiledCode compiled_;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_MODULES_H_
