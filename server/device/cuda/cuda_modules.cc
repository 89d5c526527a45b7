#include "server/device/cuda/cuda_modules.h"

#include <cstring>
#include <utility>

#include "common/crypto/content_hash.h"
#include "common/fatbin/fatbin.h"
#include "server/device/cuda/native.h"

namespace warpline::device {
namespace {

// The most that the driver may write of its just-in-time compiler's findings.
constexpr size_t kJitLogBytes = 32u << 10;

}  // namespace

std::shared_ptr<const std::string> CudaModules::Compiled(std::string_view image) {
  int major = 0;
  int minor = 0;
  api_->p_cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_);
  api_->p_cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device_);
  const absl::StatusOr<std::string> ptx = fatbin::PtxToCompile(image, major * 10 + minor);
  ContentHash hash;
  if (!ptx.ok() || !HashContent(*ptx, &hash)) return nullptr;
  if (auto kept = compiled_.Find(hash)) return kept;
  LinkId link;
  JitLog log;
  std::string code;
  if (compiler_.CreateLink({}, &link) != CudaResult::kSuccess) return nullptr;
  CudaResult result = compiler_.AddToLink(link, CU_JIT_INPUT_PTX, *ptx, "", {}, &log);
  if (result == CudaResult::kSuccess) result = compiler_.CompleteLink(link, &code, &log);
  compiler_.DestroyLink(link);
  return result == CudaResult::kSuccess ? compiled_.Keep(hash, std::move(code)) : nullptr;
}

CudaModules::~CudaModules() { CudaModules::UnloadAll(); }

void CudaModules::UnloadAll() {
  for (const ModuleId module : modules_.TakeAll()) {
    Enter();
    UnloadLibrary(Native(module));
  }
}

CUresult CudaModules::LoadLibrary(const std::string& image, LibraryOptions options,
                                  CUlibrary* library) {
  return api_->p_cuLibraryLoadData(library, image.c_str(), options.ids.data(),
                                   options.values.data(), static_cast<unsigned>(options.ids.size()),
                                   nullptr, nullptr, 0);
}

CUresult CudaModules::UnloadLibrary(CUlibrary library) { return api_->p_cuLibraryUnload(library); }

CudaResult CudaModules::Keep(CUresult result, CUlibrary library, ModuleId* module) {
  *module = ToId<ModuleId>(library);
  if (result == CUDA_SUCCESS) modules_.Add(*module);
  return ToResult(result);
}

CudaResult CudaModules::LoadModule(std::string_view image, ModuleId* module) {
  Enter();
  const std::shared_ptr<const std::string> compiled = Compiled(image);
  // PTX must end in NUL, which a view does not promise.
  const std::string terminated(compiled == nullptr ? image : *compiled);
  CUlibrary library = nullptr;
  const CUresult result = LoadLibrary(terminated, {}, &library);
  return Keep(result, library, module);
}

// Loads it as a module first, because that compiles at once and its log is then complete. The
// library that is kept is compiled anew.
CudaResult CudaModules::LoadModuleJit(std::string_view image, absl::Span<const JitOption> options,
                                      JitLog* log, ModuleId* module) {
  Enter();
  const std::string terminated(image);
  std::vector<CUjit_option> ids;
  std::vector<void*> values;
  const auto add = [&](CUjit_option id, uint64_t value) {
    ids.push_back(id);
    values.push_back(reinterpret_cast<void*>(value));
  };
  for (const JitOption& option : options) add(static_cast<CUjit_option>(option.id), option.value);
  const size_t asked = ids.size();
  std::string info(kJitLogBytes, '\0');
  std::string errors(kJitLogBytes, '\0');
  add(CU_JIT_WALL_TIME, 0);
  add(CU_JIT_INFO_LOG_BUFFER, reinterpret_cast<uint64_t>(info.data()));
  add(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, info.size());
  add(CU_JIT_ERROR_LOG_BUFFER, reinterpret_cast<uint64_t>(errors.data()));
  add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, errors.size());
  CUmodule compiled = nullptr;
  CUresult result = api_->p_cuModuleLoadDataEx(
      &compiled, terminated.c_str(), static_cast<unsigned>(ids.size()), ids.data(), values.data());
  std::memcpy(&log->wall_ms, &values[asked], sizeof(log->wall_ms));
  log->info.assign(info.data(), strnlen(info.data(), info.size()));
  log->errors.assign(errors.data(), strnlen(errors.data(), errors.size()));
  if (result != CUDA_SUCCESS) return ToResult(result);
  api_->p_cuModuleUnload(compiled);
  CUlibrary library = nullptr;
  result = api_->p_cuLibraryLoadData(&library, terminated.c_str(), ids.data(), values.data(),
                                     static_cast<unsigned>(asked), nullptr, nullptr, 0);
  return Keep(result, library, module);
}

CudaResult CudaModules::CheckModule(ModuleId module) {
  Enter();
  CUmodule native = nullptr;
  return ToResult(api_->p_cuLibraryGetModule(&native, Native(module)));
}

CudaResult CudaModules::UnloadModule(ModuleId module) {
  Enter();
  if (!modules_.Remove(module)) return CudaResult::kInvalidHandle;
  return ToResult(UnloadLibrary(Native(module)));
}

CudaResult CudaModules::Kernels(ModuleId module, std::vector<std::string>* names) {
  Enter();
  unsigned count = 0;
  CUresult result = api_->p_cuLibraryGetKernelCount(&count, Native(module));
  if (result != CUDA_SUCCESS) return ToResult(result);
  std::vector<CUkernel> kernels(count);
  result = api_->p_cuLibraryEnumerateKernels(kernels.data(), count, Native(module));
  if (result != CUDA_SUCCESS) return ToResult(result);
  for (CUkernel kernel : kernels) {
    const char* name = nullptr;
    result = api_->p_cuKernelGetName(&name, kernel);
    if (result != CUDA_SUCCESS) return ToResult(result);
    names->push_back(name);
  }
  return CudaResult::kSuccess;
}

CudaResult CudaModules::FindKernel(ModuleId module, const std::string& name, KernelId* kernel) {
  Enter();
  CUkernel native = nullptr;
  const CUresult result = api_->p_cuLibraryGetKernel(&native, Native(module), name.c_str());
  *kernel = ToId<KernelId>(native);
  return ToResult(result);
}

CudaResult CudaModules::FindGlobal(ModuleId module, const std::string& name, uint64_t* address,
                                   uint64_t* bytes) {
  Enter();
  CUdeviceptr native = 0;
  size_t size = 0;
  CUresult result = api_->p_cuLibraryGetGlobal(&native, &size, Native(module), name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) {
    result = api_->p_cuLibraryGetManaged(&native, &size, Native(module), name.c_str());
  }
  *address = native;
  *bytes = size;
  return ToResult(result);
}

// The driver copies pageable memory before it returns.
CudaResult CudaModules::WriteVariable(ModuleId module, const std::string& name,
                                      std::string_view bytes, StreamId stream) {
  uint64_t address = 0;
  const CudaResult found = FindRoom(module, name, bytes.size(), &address);
  if (found != CudaResult::kSuccess) return found;
  return IssueTo(stream, [&](CUstream on) {
    return api_->p_cuMemcpyHtoDAsync(address, bytes.data(), bytes.size(), on);
  });
}

CudaResult CudaModules::ManagedBlock(uint64_t address, uint64_t* base, uint64_t* bytes) {
  Enter();
  *base = *bytes = 0;
  unsigned managed = 0;
  CUresult result =
      api_->p_cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
  if (result != CUDA_SUCCESS || managed == 0) return CudaResult::kSuccess;
  CUdeviceptr block = 0;
  size_t size = 0;
  result = api_->p_cuMemGetAddressRange(&block, &size, address);
  if (result != CUDA_SUCCESS) return ToResult(result);
  *base = block;
  *bytes = size;
  return CudaResult::kSuccess;
}

CudaResult CudaModules::TakeBlock(uint64_t* address) {
  Enter();
  CUdeviceptr block = 0;
  const CUresult result = api_->p_cuMemAlloc_v2(&block, kBlockBytes);
  *address = block;
  return ToResult(result);
}

void CudaModules::FreeBlock(uint64_t address) {
  Enter();
  api_->p_cuMemFree_v2(address);
}

}  // namespace warpline::device
