// Modules in every form of image, their kernels and variables, and the compiler's errors.
#include "setting.h"

namespace conformance {
namespace {

const char kWrongPtx[] = ".version 6.4\n.target sm_75\n.address_size 64\nnonsense\n";
const char kFuturePtx[] = ".version 99.0\n.target sm_75\n.address_size 64\n";

// Checks that kernel `affine` of the module computes, and that `step` has its first value.
void Use(const char* form, CUmodule module) {
  CUfunction affine = nullptr;
  CUdeviceptr in = 0, out = 0, step = 0;
  size_t size = 0;
  if (!CALL(form, CUDA_SUCCESS, cuModuleGetFunction, &affine, module, "affine")) return;
  if (CALL(form, CUDA_SUCCESS, cuModuleGetGlobal, &step, &size, module, "step")) {
    unsigned value = 0;
    SETUP(cuMemcpyDtoH, &value, step, 4);
    EQUAL(cuModuleGetGlobal, (std::string(form) + " first value").c_str(), value, 7u);
    EQUAL(cuModuleGetGlobal, (std::string(form) + " size").c_str(), size, 4u);
  }
  constexpr unsigned kCount = 300;
  SETUP(cuMemAlloc, &in, kCount * 4);
  SETUP(cuMemAlloc, &out, kCount * 4);
  std::vector<unsigned> words(kCount);
  for (unsigned i = 0; i < kCount; ++i) words[i] = i;
  SETUP(cuMemcpyHtoD, in, words.data(), kCount * 4);
  unsigned a = 3, b = 5, n = kCount;
  void* parameters[] = {&out, &in, &a, &b, &n};
  SETUP(cuLaunchKernel, affine, 3, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr);
  SETUP(cuMemcpyDtoH, words.data(), out, kCount * 4);
  unsigned wrong = 0;
  for (unsigned i = 0; i < kCount; ++i) wrong += words[i] != 3 * i + 5;
  HOLDS(cuModuleLoadData, (std::string(form) + " computes").c_str(), wrong == 0, "%u wrong words",
        wrong);
  SETUP(cuMemFree, in);
  SETUP(cuMemFree, out);
}

void Load(const char* form, const void* image) {
  CUmodule module = nullptr;
  if (!CALL(form, CUDA_SUCCESS, cuModuleLoadData, &module, image)) return;
  Use(form, module);
  CALL(form, CUDA_SUCCESS, cuModuleUnload, module);
}

void Forms() {
  if (!Begin()) return;
  const std::vector<char> ptx = Image("ptx/kernels.ptx");
  Load("PTX", ptx.data());
  const std::vector<char> cubin = Image("cubin/kernels.cubin");
  if (on_cpu()) {
    CUmodule module;
    REFUSED_AS("cubin", CUDA_SUCCESS, CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData, &module,
               cubin.data());
  } else {
    Load("cubin", cubin.data());
  }
  for (const char* name : {"plain", "zstd", "lz4"}) {
    const std::vector<char> bytes = Image(std::string("fatbin_") + name + "/kernels.fatbin");
    if (bytes.empty()) continue;
    Load((std::string("container, ") + name).c_str(), bytes.data());
    const Wrapper wrapper = {0x466243b1, 1, bytes.data(), nullptr};
    CUmodule module = nullptr;
    CALL((std::string("wrapper, ") + name).c_str(), CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData,
         &module, &wrapper);
    CALL((std::string("wrapper, ") + name).c_str(), CUDA_ERROR_INVALID_IMAGE, cuModuleLoadFatBinary,
         &module, &wrapper);
    if (CALL(name, CUDA_SUCCESS, cuModuleLoadFatBinary, &module, bytes.data())) {
      Use((std::string("by cuModuleLoadFatBinary, ") + name).c_str(), module);
      SETUP(cuModuleUnload, module);
    }
  }
}

void Files() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  for (const char* name : {"ptx/kernels.ptx", "fatbin_zstd/kernels.fatbin"}) {
    if (!CALL(name, CUDA_SUCCESS, cuModuleLoad, &module, ImagePath(name).c_str())) continue;
    Use(name, module);
    SETUP(cuModuleUnload, module);
  }
  CALL("no such file", CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad, &module, "/no/such/file.ptx");
  CALL("no name", CUDA_ERROR_INVALID_VALUE, cuModuleLoad, &module, nullptr);
}

void WrongImages() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  const char garbage[64] = "\x01\x02\x03 no image at all";
  CALL("PTX that does not parse", CUDA_ERROR_INVALID_PTX, cuModuleLoadData, &module, kWrongPtx);
  CALL("PTX of a later version", CUDA_ERROR_UNSUPPORTED_PTX_VERSION, cuModuleLoadData, &module,
       kFuturePtx);
  CALL("garbage", CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData, &module, garbage);
  CALL("no image", CUDA_ERROR_INVALID_VALUE, cuModuleLoadData, &module, nullptr);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuModuleLoadData, nullptr, kWrongPtx);
  CALL("none", CUDA_ERROR_INVALID_HANDLE, cuModuleUnload, nullptr);
}

void Options() {
  if (!Begin()) return;
  const std::vector<char> ptx = Image("ptx/kernels.ptx");
  if (ptx.empty()) return;
  char info[4096] = {}, error[4096] = {};
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_OPTIMIZATION_LEVEL};
  void* values[] = {info, reinterpret_cast<void*>(sizeof(info)), error,
                    reinterpret_cast<void*>(sizeof(error)), reinterpret_cast<void*>(3)};
  CUmodule module = nullptr;
  if (CALL("with options", CUDA_SUCCESS, cuModuleLoadDataEx, &module, ptx.data(), 5, options,
           values)) {
    Use("with options", module);
    SETUP(cuModuleUnload, module);
  }
  values[1] = reinterpret_cast<void*>(sizeof(info));
  values[3] = reinterpret_cast<void*>(sizeof(error));
  CALL("PTX that does not parse", CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx, &module, kWrongPtx, 5,
       options, values);
  HOLDS(cuModuleLoadDataEx, "the error log says why", error[0] != '\0', "the log is empty");
  HOLDS(cuModuleLoadDataEx, "the error log's size",
        reinterpret_cast<size_t>(values[3]) > 0 &&
            reinterpret_cast<size_t>(values[3]) < sizeof(error),
        "%zu", reinterpret_cast<size_t>(values[3]));
  error[0] = '\0';
  values[1] = reinterpret_cast<void*>(sizeof(info));
  values[3] = reinterpret_cast<void*>(sizeof(error));
  CALL("PTX of a later version", CUDA_ERROR_UNSUPPORTED_PTX_VERSION, cuModuleLoadDataEx, &module,
       kFuturePtx, 5, options, values);
  HOLDS(cuModuleLoadDataEx, "the error log names the version",
        std::strstr(error, "99.0") != nullptr, "it says '%s'", error);
  CALL("no options", CUDA_SUCCESS, cuModuleLoadDataEx, &module, ptx.data(), 0, nullptr, nullptr);
}

void Contents() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  if (!LoadModule(&module)) return;
  CUfunction function = nullptr;
  CUdeviceptr address = 0;
  size_t size = 0;
  CALL("unknown", CUDA_ERROR_NOT_FOUND, cuModuleGetFunction, &function, module, "not_here");
  CALL("no name", CUDA_ERROR_INVALID_VALUE, cuModuleGetFunction, &function, module, nullptr);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuModuleGetFunction, nullptr, module,
       "affine");
  CALL("no module", CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction, &function, nullptr, "affine");
  CALL("constant", CUDA_SUCCESS, cuModuleGetGlobal, &address, &size, module, "table");
  EQUAL(cuModuleGetGlobal, "size of a constant", size, 64u);
  CALL("unknown", CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal, &address, &size, module, "not_here");
  CALL("only the size wanted", CUDA_SUCCESS, cuModuleGetGlobal, nullptr, &size, module, "step");
  CALL("only the address wanted", CUDA_SUCCESS, cuModuleGetGlobal, &address, nullptr, module,
       "step");
  CALL("no module", CUDA_ERROR_INVALID_HANDLE, cuModuleGetGlobal, &address, &size, nullptr, "step");

  // Constants can be written, and kernels read what was written.
  unsigned words[16], read[16] = {};
  for (unsigned i = 0; i < 16; ++i) words[i] = 100 + i;
  CUdeviceptr out = 0;
  SETUP(cuModuleGetGlobal, &address, &size, module, "table");
  SETUP(cuMemcpyHtoD, address, words, sizeof(words));
  SETUP(cuMemAlloc, &out, sizeof(words));
  if (!Kernel(&function, module, "read_table")) return;
  void* parameters[] = {&out};
  SETUP(cuLaunchKernel, function, 1, 1, 1, 16, 1, 1, 0, nullptr, parameters, nullptr);
  SETUP(cuMemcpyDtoH, read, out, sizeof(read));
  HOLDS(cuModuleGetGlobal, "kernels read a constant that was written",
        std::memcmp(words, read, sizeof(words)) == 0, "they read other words");

  unsigned count = 0;
  CALL("count", CUDA_SUCCESS, cuModuleGetFunctionCount, &count, module);
  EQUAL(cuModuleGetFunctionCount, "all kernels", count, 12u);
  std::vector<CUfunction> functions(count + 1);
  CALL("all", CUDA_SUCCESS, cuModuleEnumerateFunctions, functions.data(), count, module);
  unsigned named = 0;
  for (unsigned i = 0; i < count; ++i) {
    const char* name = nullptr;
    named += CU(cuFuncGetName)(&name, functions[i]) == CUDA_SUCCESS && name != nullptr;
  }
  EQUAL(cuModuleEnumerateFunctions, "each has a name", named, count);
  CUmoduleLoadingMode loading;
  CALL("mode", CUDA_SUCCESS, cuModuleGetLoadingMode, &loading);
  EQUAL(cuModuleGetLoadingMode, "is lazy", loading, CU_MODULE_LAZY_LOADING);
  if (!native()) {  // NVIDIA's driver ends the process.
    CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuModuleGetLoadingMode, nullptr);
  }
  CALL("loaded", CUDA_SUCCESS, cuModuleUnload, module);
}

void Linker() {
  if (!Begin()) return;
  CUlinkState state = nullptr;
  const std::vector<char> ptx = Image("ptx/kernels.ptx");
  if (!CALL("no options", CUDA_SUCCESS, cuLinkCreate, 0, nullptr, nullptr, &state)) return;
  CALL("PTX", CUDA_SUCCESS, cuLinkAddData, state, CU_JIT_INPUT_PTX, const_cast<char*>(ptx.data()),
       ptx.size(), "kernels", 0, nullptr, nullptr);
  void* cubin = nullptr;
  size_t size = 0;
  if (CALL("one input", CUDA_SUCCESS, cuLinkComplete, state, &cubin, &size)) {
    Load("linked cubin", cubin);
  }
  CALL("complete", CUDA_SUCCESS, cuLinkDestroy, state);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "modules",
             {{"forms", Forms},
              {"files", Files},
              {"wrong_images", WrongImages},
              {"options", Options},
              {"contents", Contents},
              {"linker", Linker}});
}
