// Libraries, which are loaded when something of them is first looked up.
#include <algorithm>
#include <string>
#include <vector>

#include "client_stub/core/base/call_log.h"
#include "client_stub/core/module/image.h"
#include "client_stub/core/module/modules.h"
#include "client_stub/core/runtime/runtime.h"
#include "client_stub/core/stream/streams.h"

using namespace warpline::stub;

namespace {

// Reads the options of cuLibraryLoadData; returns false for an option that cannot be honoured.
// Where no option takes a value there may be no array of values: cuBLASLt says in this form that
// its code is preserved.
bool ReadLibraryOptions(unsigned int count, const CUlibraryOption* options, void** values,
                        bool* preserved) {
  if (count != 0 && options == nullptr) return false;
  for (unsigned int i = 0; i < count; ++i) {
    if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED) {
      *preserved = values == nullptr || values[i] != nullptr;
    } else if (options[i] != CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE ||
               values == nullptr) {
      if (const warpline::LogPermit permit = CallLog().Ask(kOptionLine)) {
        permit.Warning("cuLibraryLoadData: option ", static_cast<int>(options[i]),
                       " is not supported");
      }
      return false;
    }
  }
  return true;
}

CUresult EnterLibrary(CUlibrary handle, Library** library) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(SessionError());
  *library = FindLibrary(handle);
  return *library == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

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
  JitOptions jit;
  WARPLINE_TRY(jit.Read(numJitOptions, jitOptions, jitOptionsValues));
  std::string_view bytes;
  const CUresult result = FindImage(code, &bytes);
  // Loading is lazy, so a library without an image fails only when it is used.
  if (result == CUDA_ERROR_INVALID_IMAGE) bytes = {};
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_IMAGE) return result;
  return AddLibrary(bytes, preserved, &jit, library);
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary* library, const char* fileName,
                                       CUjit_option* jitOptions, void** jitOptionsValues,
                                       unsigned int numJitOptions, CUlibraryOption* libraryOptions,
                                       void** libraryOptionValues, unsigned int numLibraryOptions) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(SessionError());
  bool preserved = false;
  // Only this call knows the file's bytes, so they cannot be preserved.
  if (library == nullptr || fileName == nullptr ||
      !ReadLibraryOptions(numLibraryOptions, libraryOptions, libraryOptionValues, &preserved) ||
      preserved) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  JitOptions jit;
  WARPLINE_TRY(jit.Read(numJitOptions, jitOptions, jitOptionsValues));
  std::string file;
  WARPLINE_TRY(ReadImageFile(fileName, &file));
  return AddLibrary(file, /*preserved=*/false, &jit, library);
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary library) {
  if (Exiting()) return CUDA_SUCCESS;
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(AwaitWorkBeforeFree(CurrentDevice()));
  return RemoveLibrary(library);
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
  Library* found;
  WARPLINE_TRY(EnterLibrary(library, &found));
  if (pKernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return found->FindKernel(name, pKernel);
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
  WARPLINE_TRY(EnterContext());
  Library* found;
  WARPLINE_TRY(EnterLibrary(library, &found));
  if (pMod == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* const module = found->On(&CurrentDevice());
  WARPLINE_TRY(module->Upload());
  *pMod = module->ModuleHandle();
  return *pMod == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                    const char* name) {
  WARPLINE_TRY(EnterContext());
  Library* found;
  WARPLINE_TRY(EnterLibrary(library, &found));
  return found->On(&CurrentDevice())->GetGlobal(name, dptr, bytes);
}

CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int* count, CUlibrary lib) {
  Library* found;
  WARPLINE_TRY(EnterLibrary(lib, &found));
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::string> names;
  WARPLINE_TRY(found->KernelNames(&names));
  *count = static_cast<unsigned int>(names.size());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels,
                                           CUlibrary lib) {
  Library* found;
  WARPLINE_TRY(EnterLibrary(lib, &found));
  if (kernels == nullptr || numKernels == 0) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUkernel> first;
  WARPLINE_TRY(found->FirstKernels(numKernels, &first));
  std::copy(first.begin(), first.end(), kernels);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                     const char* name) {
  Library* found;
  WARPLINE_TRY(EnterLibrary(library, &found));
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address, size;
  WARPLINE_TRY(found->On(&CurrentDevice())->FindManaged(name, &address, &size));
  if (dptr != nullptr) *dptr = address;
  if (bytes != nullptr) *bytes = size;
  return CUDA_SUCCESS;
}

// A function has one address for host and device only where the host shares the device's memory.
CUresult CUDAAPI cuLibraryGetUnifiedFunction(void**, CUlibrary library, const char*) {
  Library* found;
  WARPLINE_TRY(EnterLibrary(library, &found));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(SessionError());
  const Kernel* found = FindKernel(NumberOf(kernel));
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (pLib == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Library* const library = found->module->library();
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *pLib = library->handle;
  return CUDA_SUCCESS;
}

}  // extern "C"
