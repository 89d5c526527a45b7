// The modules of a context of a shared device.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_MODULES_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_MODULES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cuda/cuda_modules.h"
#include "server/device/cuda/cuda_part.h"

namespace warpline::device {

// Thread-safe. It differs where the driver would wait for kernels of all who share the device:
// libraries are loaded whole and at quiet moments, and unloaded at one that comes.
class CudaSharedModules : public CudaModules {
 public:
  static constexpr Capabilities kGives = {};

  explicit CudaSharedModules(CudaMember* member) : CudaModules(member) {}
  ~CudaSharedModules() override { CudaSharedModules::UnloadAll(); }

  // Loads a library alone, which has nothing to say: the log is empty.
  CudaResult LoadModuleJit(std::string_view image, absl::Span<const JitOption> options, JitLog* log,
                           ModuleId* module) override;
  // kLaunchOutOfResources for a kernel with more local memory than every thread has.
  CudaResult FindKernel(ModuleId module, const std::string& name, KernelId* kernel) override;
  CudaResult TakeBlock(uint64_t*) override { return Lacks(Capability::kVariableBlocks); }
  void FreeBlock(uint64_t) override {}

 protected:
  CUresult LoadLibrary(const std::string& image, LibraryOptions options,
                       CUlibrary* library) override;
  CUresult UnloadLibrary(CUlibrary library) override;

 private:
  // The driver loads a library when something of it is first used.
  CUresult UseNow(CUlibrary library);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_MODULES_H_
