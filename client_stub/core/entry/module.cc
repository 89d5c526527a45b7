// Modules, which are loaded when the call is made.
#include <algorithm>
#include <string>
#include <vector>

#include "client_stub/core/module/image.h"
#include "client_stub/core/module/modules.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/runtime/thread_state.h"
#include "client_stub/core/stream/streams.h"
#include "common/fatbin/image_view.h"

using namespace warpline::stub;

namespace {

CUresult Load(CUmodule* module, const void* image, JitOptions options = {}) {
  WARPLINE_TRY(Enter());
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string_view bytes;
  WARPLINE_TRY(FindImage(image, &bytes));
  // The wrapper that nvcc puts around a container is accepted for libraries only.
  if (warpline::fatbin::IsWrapper(image)) return CUDA_ERROR_INVALID_IMAGE;
  return AddModule(CurrentOwner(), bytes, &options, module);
}

CUresult EnterModule(CUmodule handle, Module** module) {
  WARPLINE_TRY(EnterObject());
  *module = FindModule(handle);
  return *module == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  WARPLINE_TRY(EnterInitialized());
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // If this said "eager", the runtime would load everything that a program and its libraries carry.
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
  return Load(module, image);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                                    CUjit_option* options, void** optionValues) {
  WARPLINE_TRY(EnterInitialized());
  JitOptions jit;
  WARPLINE_TRY(jit.Read(numOptions, options, optionValues));
  return Load(module, image, jit);
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
  return Load(module, fatCubin);
}

CUresult CUDAAPI cuModuleLoad(CUmodule* module, const char* fname) {
  WARPLINE_TRY(Enter());
  if (module == nullptr || fname == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string file;
  WARPLINE_TRY(ReadImageFile(fname, &file));
  JitOptions none;
  return AddModule(CurrentOwner(), file, &none, module);
}

CUresult CUDAAPI cuModuleUnload(CUmodule hmod) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterObject());
  WARPLINE_TRY(AwaitWorkBeforeFree(CurrentDevice()));
  return RemoveModule(hmod);
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  Module* module;
  WARPLINE_TRY(EnterModule(hmod, &module));
  if (hfunc == nullptr || name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  Kernel* kernel;
  WARPLINE_TRY(module->FindKernel(name, &kernel));
  *hfunc = FunctionOf(kernel);
  return *hfunc == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod,
                                      const char* name) {
  Module* module;
  WARPLINE_TRY(EnterModule(hmod, &module));
  return module->GetGlobal(name, dptr, bytes);
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) {
  Module* module;
  WARPLINE_TRY(EnterModule(mod, &module));
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::string> names;
  WARPLINE_TRY(module->KernelNames(&names));
  *count = static_cast<unsigned int>(names.size());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction* functions, unsigned int numFunctions,
                                            CUmodule mod) {
  Module* module;
  WARPLINE_TRY(EnterModule(mod, &module));
  if (functions == nullptr || numFunctions == 0) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::string> names;
  WARPLINE_TRY(module->KernelNames(&names));
  for (size_t i = 0; i < std::min<size_t>(numFunctions, names.size()); ++i) {
    Kernel* kernel;
    WARPLINE_TRY(module->FindKernel(names[i], &kernel));
    functions[i] = FunctionOf(kernel);
  }
  return CUDA_SUCCESS;
}

// No image of a toolkit since CUDA 12 has texture or surface references.
CUresult CUDAAPI cuModuleGetTexRef(CUtexref* pTexRef, CUmodule hmod, const char* name) {
  Module* module;
  WARPLINE_TRY(EnterModule(hmod, &module));
  return pTexRef == nullptr || name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuModuleGetSurfRef(CUsurfref* pSurfRef, CUmodule hmod, const char* name) {
  Module* module;
  WARPLINE_TRY(EnterModule(hmod, &module));
  return pSurfRef == nullptr || name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
}

}  // extern "C"
