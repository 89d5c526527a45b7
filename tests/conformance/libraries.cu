// Libraries and their kernels.
#include <algorithm>

#include "setting.h"

namespace conformance {
namespace {

bool LoadLibrary(CUlibrary* library) {
  const std::vector<char> bytes = Image("fatbin_zstd/kernels.fatbin");
  Mark("cuLibraryLoadData", "setup");
  return !bytes.empty() && Setup(CU(cuLibraryLoadData)(library, bytes.data(), nullptr, nullptr, 0,
                                                       nullptr, nullptr, 0));
}

void LoadInEveryForm() {
  if (!Begin()) return;
  const struct {
    const char *form, *image;
  } kForms[] = {{"PTX", "ptx/kernels.ptx"},
                {"container, plain", "fatbin_plain/kernels.fatbin"},
                {"container, zstd", "fatbin_zstd/kernels.fatbin"},
                {"container, lz4", "fatbin_lz4/kernels.fatbin"}};
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  for (const auto& form : kForms) {
    std::vector<char> bytes = Image(form.image);
    if (bytes.empty()) continue;
    if (!CALL(form.form, CUDA_SUCCESS, cuLibraryLoadData, &library, bytes.data(), nullptr, nullptr,
              0, nullptr, nullptr, 0)) {
      continue;
    }
    // The caller may forget the image once it is loaded.
    std::fill(bytes.begin(), bytes.end(), '\0');
    CALL(form.form, CUDA_SUCCESS, cuLibraryGetKernel, &kernel, library, "nothing");
    CALL(form.form, CUDA_SUCCESS, cuLaunchKernel, reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1,
         1, 1, 0, nullptr, nullptr, nullptr);
    CALL(form.form, CUDA_SUCCESS, cuCtxSynchronize);
    CALL(form.form, CUDA_SUCCESS, cuLibraryUnload, library);
  }
  // Libraries can be loaded from the wrapper that nvcc puts around a container; modules cannot.
  const std::vector<char> plain = Image("fatbin_plain/kernels.fatbin");
  const Wrapper wrapper = {0x466243b1, 1, plain.data(), nullptr};
  if (CALL("wrapper", CUDA_SUCCESS, cuLibraryLoadData, &library, &wrapper, nullptr, nullptr, 0,
           nullptr, nullptr, 0)) {
    CALL("wrapper", CUDA_SUCCESS, cuLibraryGetKernel, &kernel, library, "nothing");
    CALL("wrapper", CUDA_SUCCESS, cuLibraryUnload, library);
  }
  CALL("file", CUDA_SUCCESS, cuLibraryLoadFromFile, &library,
       ImagePath("fatbin_zstd/kernels.fatbin").c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  CALL("of a file", CUDA_SUCCESS, cuLibraryUnload, library);
  CALL("no such file", CUDA_ERROR_FILE_NOT_FOUND, cuLibraryLoadFromFile, &library,
       "/no/such/file.fatbin", nullptr, nullptr, 0, nullptr, nullptr, 0);
  CALL("no image", CUDA_ERROR_INVALID_VALUE, cuLibraryLoadData, &library, nullptr, nullptr, nullptr,
       0, nullptr, nullptr, 0);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuLibraryLoadData, nullptr, "", nullptr,
       nullptr, 0, nullptr, nullptr, 0);
  const std::vector<char> bytes = Image("ptx/kernels.ptx");
  CUlibraryOption options[] = {CU_LIBRARY_BINARY_IS_PRESERVED};
  void* values[] = {reinterpret_cast<void*>(1)};
  CALL("preserved", CUDA_SUCCESS, cuLibraryLoadData, &library, bytes.data(), nullptr, nullptr, 0,
       options, values, 1);
  CALL("preserved", CUDA_SUCCESS, cuLibraryUnload, library);
  // That option has no value.
  CALL("preserved, no values", CUDA_SUCCESS, cuLibraryLoadData, &library, bytes.data(), nullptr,
       nullptr, 0, options, nullptr, 1);
  CALL("preserved, no values", CUDA_SUCCESS, cuLibraryUnload, library);
  CALL("none", CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload, nullptr);
}

void Kernels() {
  if (!Begin()) return;
  CUlibrary library = nullptr, owner = nullptr;
  if (!LoadLibrary(&library)) return;
  CUkernel kernel = nullptr;
  CALL("affine", CUDA_SUCCESS, cuLibraryGetKernel, &kernel, library, "affine");
  CALL("unknown", CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel, &kernel, library, "not_here");
  SETUP(cuLibraryGetKernel, &kernel, library, "affine");
  CALL("no name", CUDA_ERROR_INVALID_VALUE, cuLibraryGetKernel, &kernel, library, nullptr);
  CALL("no library", CUDA_ERROR_INVALID_HANDLE, cuLibraryGetKernel, &kernel, nullptr, "affine");
  unsigned count = 0;
  CALL("count", CUDA_SUCCESS, cuLibraryGetKernelCount, &count, library);
  EQUAL(cuLibraryGetKernelCount, "all kernels", count, 12u);
  std::vector<CUkernel> kernels(count + 1);
  CALL("all", CUDA_SUCCESS, cuLibraryEnumerateKernels, kernels.data(), count, library);
  unsigned named = 0;
  for (unsigned i = 0; i < count; ++i) {
    const char* name = nullptr;
    named += CU(cuKernelGetName)(&name, kernels[i]) == CUDA_SUCCESS && name != nullptr;
  }
  EQUAL(cuLibraryEnumerateKernels, "each has a name", named, count);
  const char* name = nullptr;
  CALL("affine", CUDA_SUCCESS, cuKernelGetName, &name, kernel);
  HOLDS(cuKernelGetName, "is affine", name != nullptr && std::strcmp(name, "affine") == 0, "'%s'",
        name == nullptr ? "" : name);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuKernelGetName, nullptr, kernel);
  CALL("no kernel", CUDA_ERROR_INVALID_VALUE, cuKernelGetName, &name, nullptr);
  CALL("affine", CUDA_SUCCESS, cuKernelGetLibrary, &owner, kernel);
  HOLDS(cuKernelGetLibrary, "gives the library", owner == library, "another one");
  CUfunction function = nullptr;
  CALL("affine", CUDA_SUCCESS, cuKernelGetFunction, &function, kernel);
  CALL("no kernel", CUDA_ERROR_INVALID_HANDLE, cuKernelGetFunction, &function, nullptr);
  CUmodule module = nullptr;
  CALL("module", CUDA_SUCCESS, cuLibraryGetModule, &module, library);
  CALL("of a library", CUDA_SUCCESS, cuModuleGetFunction, &function, module, "nothing");
  CALL("no library", CUDA_ERROR_INVALID_HANDLE, cuLibraryGetModule, &module, nullptr);
  size_t offset = 99, size = 99;
  CALL("parameter 1", CUDA_SUCCESS, cuKernelGetParamInfo, kernel, 1, &offset, &size);
  EQUAL(cuKernelGetParamInfo, "offset of parameter 1", offset, 8u);
  EQUAL(cuKernelGetParamInfo, "size of parameter 1", size, 8u);
  CALL("past the last", CUDA_ERROR_INVALID_VALUE, cuKernelGetParamInfo, kernel, 5, &offset, &size);
  CALL("library", CUDA_SUCCESS, cuLibraryUnload, library);
}

void KernelAttributes() {
  if (!Begin()) return;
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  if (!LoadLibrary(&library)) return;
  SETUP(cuLibraryGetKernel, &kernel, library, "reverse");
  int value = 0;
  CALL("MAX_THREADS_PER_BLOCK", CUDA_SUCCESS, cuKernelGetAttribute, &value,
       CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, 0);
  EQUAL(cuKernelGetAttribute, "MAX_THREADS_PER_BLOCK value", value, 1024);
  CALL("dynamic shared memory", CUDA_SUCCESS, cuKernelSetAttribute,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536, kernel, 0);
  CALL("dynamic shared memory", CUDA_SUCCESS, cuKernelGetAttribute, &value,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, 0);
  EQUAL(cuKernelSetAttribute, "is there then", value, 65536);
  CALL("too much shared memory", CUDA_ERROR_INVALID_VALUE, cuKernelSetAttribute,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 24, kernel, 0);
  CALL("read-only attribute", CUDA_ERROR_INVALID_VALUE, cuKernelSetAttribute,
       CU_FUNC_ATTRIBUTE_NUM_REGS, 1, kernel, 0);
  CALL("unknown attribute", CUDA_ERROR_INVALID_VALUE, cuKernelGetAttribute, &value,
       static_cast<CUfunction_attribute>(4711), kernel, 0);
  CALL("wrong device", CUDA_ERROR_INVALID_DEVICE, cuKernelGetAttribute, &value,
       CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 4711);
  CALL("no kernel", CUDA_ERROR_INVALID_HANDLE, cuKernelGetAttribute, &value,
       CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr, 0);
  CALL("more shared", CUDA_SUCCESS, cuKernelSetCacheConfig, kernel, CU_FUNC_CACHE_PREFER_SHARED, 0);
  CALL("unknown", CUDA_ERROR_INVALID_VALUE, cuKernelSetCacheConfig, kernel,
       static_cast<CUfunc_cache>(77), 0);
}

void Globals() {
  if (!Begin()) return;
  CUlibrary library = nullptr;
  if (!LoadLibrary(&library)) return;
  CUdeviceptr address = 0;
  size_t size = 0;
  CALL("step", CUDA_SUCCESS, cuLibraryGetGlobal, &address, &size, library, "step");
  EQUAL(cuLibraryGetGlobal, "size", size, 4u);
  unsigned value = 0;
  CALL("step", CUDA_SUCCESS, cuMemcpyDtoH, &value, address, 4);
  EQUAL(cuLibraryGetGlobal, "first value", value, 7u);
  CALL("unknown", CUDA_ERROR_NOT_FOUND, cuLibraryGetGlobal, &address, &size, library, "not_here");
  CALL("no library", CUDA_ERROR_INVALID_HANDLE, cuLibraryGetGlobal, &address, &size, nullptr,
       "step");
  CALL("none is managed", CUDA_ERROR_NOT_FOUND, cuLibraryGetManaged, &address, &size, library,
       "step");
  void* pointer = nullptr;
  CALL("none is unified", CUDA_ERROR_INVALID_VALUE, cuLibraryGetUnifiedFunction, &pointer, library,
       "nothing");
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "libraries",
             {{"load", LoadInEveryForm},
              {"kernels", Kernels},
              {"kernel_attributes", KernelAttributes},
              {"globals", Globals}});
}
