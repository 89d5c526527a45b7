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

// Thread-safe. It differs from CudaModules where the driver would wait for the kernels of all
// sessions of the device. It loads libraries whole and at quiet moments, and unloads them at a
// later one.
class CudaSharedModules : public CudaModules {
 public:
  static constexpr Capabilities kGives = {};

  explicit CudaSharedModules(CudaMember* member) : CudaModules(member) {}
  ~CudaSharedModules() override { CudaSharedModules::UnloadAll(); }

  // Loads the image as a library, which gives no messages: the log is empty.
  CudaResult LoadModuleJit(std::string_view image, absl::Span<const JitOption> options, JitLog* log,
                           ModuleId* module) override;
  // Returns kLaunchOutOfResources for a kernel that needs more local memory than the device's
  // threads have.
  CudaResult FindKernel(ModuleId module, const std::string& name, KernelId* kernel) override;
  CudaResult TakeBlock(uint64_t*) override { return Lacks(Capability::kVariableBlocks); }
  void FreeBlock(uint64_t) override {}

 protected:
  CUresult LoadLibrary(const std::string& image, LibraryOptions options,
                       CUlibrary* library) override;
  CUresult UnloadLibrary(CUlibrary library) override;

 private:
  // Makes the driver load the library now; it would load it when a part of it is first used.
  CUresult UseNow(CUlibrary library);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_CUDA_SHARED_MODULES_H_
