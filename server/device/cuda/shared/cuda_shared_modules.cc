#include "server/device/cuda/shared/cuda_shared_modules.h"

#include <string>
#include <vector>

namespace warpline::device {

CudaResult CudaSharedModules::LoadModuleJit(std::string_view image,
                                            absl::Span<const JitOption> options, JitLog* log,
                                            ModuleId* module) {
  Enter();
  *log = JitLog();
  // PTX must end in NUL, which a view does not promise.
  const std::string terminated(image);
  std::vector<CUjit_option> ids;
  std::vector<void*> values;
  for (const JitOption& option : options) {
    ids.push_back(static_cast<CUjit_option>(option.id));
    values.push_back(reinterpret_cast<void*>(static_cast<uint64_t>(option.value)));
  }
  CUlibrary library = nullptr;
  const CUresult result =
      api_->p_cuLibraryLoadData(&library, terminated.c_str(), ids.data(), values.data(),
                                static_cast<unsigned>(ids.size()), nullptr, nullptr, 0);
  return Keep(result, library, module);
}

}  // namespace warpline::device
