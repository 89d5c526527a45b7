#include "server/device/cuda/shared/cuda_shared_modules.h"

#include <string>
#include <utility>
#include <vector>

#include "server/device/cuda/shared/quiet_moments.h"
#include "server/device/cuda/shared/session_streams.h"

namespace warpline::device {

CudaResult CudaSharedModules::LoadModuleJit(std::string_view image,
                                            absl::Span<const JitOption> options, JitLog* log,
                                            ModuleId* module) {
  Enter();
  *log = JitLog();
  // PTX must end in NUL, which a view does not promise.
  const std::string terminated(image);
  LibraryOptions native;
  for (const JitOption& option : options) {
    native.ids.push_back(static_cast<CUjit_option>(option.id));
    native.values.push_back(reinterpret_cast<void*>(static_cast<uint64_t>(option.value)));
  }
  CUlibrary library = nullptr;
  const CUresult result = LoadLibrary(terminated, std::move(native), &library);
  return Keep(result, library, module);
}

CudaResult CudaSharedModules::FindKernel(ModuleId module, const std::string& name,
                                         KernelId* kernel) {
  const CudaResult found = CudaModules::FindKernel(module, name, kernel);
  if (found != CudaResult::kSuccess) return found;
  int bytes = 0;
  const CUresult result = api_->p_cuKernelGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
                                                       Native(*kernel), device_);
  if (result != CUDA_SUCCESS) return ToResult(result);
  return static_cast<uint64_t>(bytes) <= share_->local_bytes ? CudaResult::kSuccess
                                                             : CudaResult::kLaunchOutOfResources;
}

CUresult CudaSharedModules::LoadLibrary(const std::string& image, LibraryOptions options,
                                        CUlibrary* library) {
  return share_->streams->moments()->At([&] {
    CUresult result = CudaModules::LoadLibrary(image, options, library);
    if (result != CUDA_SUCCESS) return result;
    result = UseNow(*library);
    if (result != CUDA_SUCCESS) api_->p_cuLibraryUnload(*library);
    return result;
  });
}

CUresult CudaSharedModules::UseNow(CUlibrary library) {
  CUmodule module = nullptr;
  CUresult result = api_->p_cuLibraryGetModule(&module, library);
  unsigned count = 0;
  if (result == CUDA_SUCCESS) result = api_->p_cuLibraryGetKernelCount(&count, library);
  if (result != CUDA_SUCCESS || count == 0) return result;
  std::vector<CUkernel> kernels(count);
  result = api_->p_cuLibraryEnumerateKernels(kernels.data(), count, library);
  for (size_t i = 0; i < kernels.size() && result == CUDA_SUCCESS; ++i) {
    CUfunction function = nullptr;
    result = api_->p_cuKernelGetFunction(&function, kernels[i]);
    if (result == CUDA_SUCCESS && api_->p_cuFuncLoad != nullptr) {
      result = api_->p_cuFuncLoad(function);
    }
  }
  return result;
}

CUresult CudaSharedModules::UnloadLibrary(CUlibrary library) {
  share_->streams->moments()->UnloadLater(library);
  return CUDA_SUCCESS;
}

}  // namespace warpline::device
