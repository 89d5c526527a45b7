// Modules, which are loaded when the call is made, and libraries, which are loaded when something
// of them is first looked up.
#include <cstring>
#include <string>

#include "client_stub/core/image.h"
#include "client_stub/core/modules.h"
#include "client_stub/core/runtime.h"

using namespace warpline::stub;

namespace {

// The log that a just-in-time compiler would have written here is the server's.
void ClearLogs(unsigned int count, const CUjit_option* options, void** values) {
  if (options == nullptr || values == nullptr) return;
  for (unsigned int i = 0; i < count; ++i) {
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
      case CU_JIT_ERROR_LOG_BUFFER:
        if (values[i] != nullptr) *static_cast<char*>(values[i]) = '\0';
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        values[i] = nullptr;
        break;
      default:
        break;
    }
  }
}

CUresult Load(CUmodule* module, const void* image) {
  WARPLINE_TRY(Enter());
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string_view bytes;
  WARPLINE_TRY(FindImage(image, &bytes));
  return AddModule(t_thread.current, bytes, module);
}

// Reads the options of cuLibraryLoadData; false for one that it cannot honour.
bool ReadLibraryOptions(unsigned int count, const CUlibraryOption* options, void** values,
                        bool* preserved) {
  if (count != 0 && (options == nullptr || values == nullptr)) return false;
  for (unsigned int i = 0; i < count; ++i) {
    if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED) {
      *preserved = values[i] != nullptr;
    } else if (options[i] != CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE) {
      return false;
    }
  }
  return true;
}

CUresult EnterLibrary(CUlibrary handle, Module** module) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(SessionError());
  *module = FindLibrary(handle);
  return *module == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult EnterModule(CUmodule handle, Module** module) {
  WARPLINE_TRY(Enter());
  *module = FindModule(handle);
  return *module == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult GetGlobal(Module* module, const char* name, CUdeviceptr* address, size_t* bytes) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t found_address, found_bytes;
  WARPLINE_TRY(module->FindGlobal(name, &found_address, &found_bytes));
  if (address != nullptr) *address = found_address;
  if (bytes != nullptr) *bytes = found_bytes;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  WARPLINE_TRY(EnterInitialized());
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Said to be eager, the runtime would load all that a program and its libraries carry.
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
  return Load(module, image);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                                    CUjit_option* options, void** optionValues) {
  ClearLogs(numOptions, options, optionValues);
  return Load(module, image);
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
  return Load(module, fatCubin);
}

CUresult CUDAAPI cuModuleLoad(CUmodule* module, const char* fname) {
  WARPLINE_TRY(Enter());
  if (module == nullptr || fname == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string file;
  WARPLINE_TRY(ReadImageFile(fname, &file));
  return AddModule(t_thread.current, file, module);
}

CUresult CUDAAPI cuModuleUnload(CUmodule hmod) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(Enter());
  return RemoveModule(hmod);
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  Module* module;
  WARPLINE_TRY(EnterModule(hmod, &module));
  if (hfunc == nullptr || name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  CUkernel kernel;
  WARPLINE_TRY(module->FindKernel(name, &kernel));
  *hfunc = HandleOf<CUfunction>(NumberOf(kernel));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod,
                                      const char* name) {
  Module* module;
  WARPLINE_TRY(EnterModule(hmod, &module));
  return GetGlobal(module, name, dptr, bytes);
}

CUresult CUDAAPI cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                                   void** jitOptionsValues, unsigned int numJitOptions,
                                   CUlibraryOption* libraryOptions, void** libraryOptionValues,
                                   unsigned int numLibraryOptions) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(SessionError());
  bool preserved = false;
  if (library == nullptr ||
      !ReadLibraryOptions(numLibraryOptions, libraryOptions, libraryOptionValues, &preserved)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ClearLogs(numJitOptions, jitOptions, jitOptionsValues);
  std::string_view bytes;
  const CUresult result = FindImage(code, &bytes);
  // As loading is lazy, so is finding out that there is nothing to load.
  if (result == CUDA_ERROR_INVALID_IMAGE) bytes = {};
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_IMAGE) return result;
  return AddLibrary(bytes, preserved, library);
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary* library, const char* fileName,
                                       CUjit_option* jitOptions, void** jitOptionsValues,
                                       unsigned int numJitOptions, CUlibraryOption*, void**,
                                       unsigned int) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(SessionError());
  if (library == nullptr || fileName == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ClearLogs(numJitOptions, jitOptions, jitOptionsValues);
  std::string file;
  WARPLINE_TRY(ReadImageFile(fileName, &file));
  return AddLibrary(file, /*preserved=*/false, library);
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary library) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterInitialized());
  return RemoveLibrary(library);
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
  Module* module;
  WARPLINE_TRY(EnterLibrary(library, &module));
  if (pKernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return module->FindKernel(name, pKernel);
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
  WARPLINE_TRY(EnterContext());
  Module* module;
  WARPLINE_TRY(EnterLibrary(library, &module));
  if (pMod == nullptr) return CUDA_ERROR_INVALID_VALUE;
  WARPLINE_TRY(module->Upload());
  *pMod = module->ModuleHandle();
  return *pMod == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                    const char* name) {
  WARPLINE_TRY(EnterContext());
  Module* module;
  WARPLINE_TRY(EnterLibrary(library, &module));
  return GetGlobal(module, name, dptr, bytes);
}

}  // extern "C"
