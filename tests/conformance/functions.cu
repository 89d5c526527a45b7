// Kernels as functions: attributes, parameters, names.
#include "setting.h"

namespace conformance {
namespace {

int Value(CUfunction function, CUfunction_attribute id, const char* name) {
  int value = -1;
  CALL(name, CUDA_SUCCESS, cuFuncGetAttribute, &value, id, function);
  return value;
}

void Attributes() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  CUfunction affine, bounded, static_shared, reverse;
  if (!LoadModule(&module) || !Kernel(&affine, module, "affine") ||
      !Kernel(&bounded, module, "bounded") || !Kernel(&static_shared, module, "static_shared") ||
      !Kernel(&reverse, module, "reverse")) {
    return;
  }
  EQUAL(cuFuncGetAttribute, "threads of a plain kernel",
        Value(affine, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "MAX_THREADS_PER_BLOCK"), 1024);
  EQUAL(cuFuncGetAttribute, "threads of a bounded kernel",
        Value(bounded, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "MAX_THREADS_PER_BLOCK, bounded"),
        128);
  EQUAL(cuFuncGetAttribute, "static shared memory",
        Value(static_shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, "SHARED_SIZE_BYTES"), 1024);
  EQUAL(cuFuncGetAttribute, "constants of the module",
        Value(affine, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, "CONST_SIZE_BYTES"), 64);
  EQUAL(cuFuncGetAttribute, "no locals",
        Value(affine, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, "LOCAL_SIZE_BYTES"), 0);
  HOLDS(cuFuncGetAttribute, "registers", Value(affine, CU_FUNC_ATTRIBUTE_NUM_REGS, "NUM_REGS") > 0,
        "none");
  EQUAL(cuFuncGetAttribute, "version of the PTX",
        Value(affine, CU_FUNC_ATTRIBUTE_PTX_VERSION, "PTX_VERSION"), 75);
  HOLDS(cuFuncGetAttribute, "version of the code",
        Value(affine, CU_FUNC_ATTRIBUTE_BINARY_VERSION, "BINARY_VERSION") >= 75, "too low");
  Value(affine, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, "CACHE_MODE_CA");
  EQUAL(cuFuncGetAttribute, "dynamic shared memory at first",
        Value(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
              "MAX_DYNAMIC_SHARED_SIZE_BYTES"),
        49152);
  EQUAL(cuFuncGetAttribute, "carveout at first",
        Value(reverse, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
              "PREFERRED_SHARED_MEMORY_CARVEOUT"),
        -1);
  int value = 0;
  CALL("unknown attribute", CUDA_ERROR_INVALID_VALUE, cuFuncGetAttribute, &value,
       static_cast<CUfunction_attribute>(4711), affine);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuFuncGetAttribute, &value,
       CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuFuncGetAttribute, nullptr,
       CU_FUNC_ATTRIBUTE_NUM_REGS, affine);

  CALL("64 KiB of shared memory", CUDA_SUCCESS, cuFuncSetAttribute, reverse,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536);
  EQUAL(cuFuncSetAttribute, "64 KiB are there then",
        Value(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, "after setting it"), 65536);
  CALL("carveout", CUDA_SUCCESS, cuFuncSetAttribute, reverse,
       CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50);
  CALL("carveout above 100", CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute, reverse,
       CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101);
  CALL("too much shared memory", CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute, reverse,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 24);
  CALL("negative", CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute, reverse,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1);
  CALL("read-only attribute", CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute, reverse,
       CU_FUNC_ATTRIBUTE_NUM_REGS, 8);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuFuncSetAttribute, nullptr,
       CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50);
  CALL("more L1", CUDA_SUCCESS, cuFuncSetCacheConfig, affine, CU_FUNC_CACHE_PREFER_L1);
  CALL("unknown", CUDA_ERROR_INVALID_VALUE, cuFuncSetCacheConfig, affine,
       static_cast<CUfunc_cache>(77));
  CALL("8 bytes", CUDA_SUCCESS, cuFuncSetSharedMemConfig, affine,
       CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuFuncSetCacheConfig, nullptr,
       CU_FUNC_CACHE_PREFER_L1);
}

void Parameters() {
  if (!Begin()) return;
  CUmodule module = nullptr, owner = nullptr;
  CUfunction function = nullptr;
  if (!LoadModule(&module) || !Kernel(&function, module, "many_parameters")) return;
  // char, short, int, long long, float, 12 bytes, double, pointer
  const size_t kOffsets[] = {0, 2, 4, 8, 16, 20, 32, 40};
  const size_t kSizes[] = {1, 2, 4, 8, 4, 12, 8, 8};
  size_t offset = 0, size = 0;
  for (size_t i = 0; i < 8; ++i) {
    const std::string name = "parameter " + std::to_string(i);
    offset = size = 999;
    CALL(name.c_str(), CUDA_SUCCESS, cuFuncGetParamInfo, function, i, &offset, &size);
    EQUAL(cuFuncGetParamInfo, (name + " offset").c_str(), offset, kOffsets[i]);
    EQUAL(cuFuncGetParamInfo, (name + " size").c_str(), size, kSizes[i]);
  }
  CALL("past the last", CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo, function, 8, &offset, &size);
  CALL("size not wanted", CUDA_SUCCESS, cuFuncGetParamInfo, function, 0, &offset, nullptr);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo, function, 0, nullptr,
       &size);
  CALL("no function", CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo, nullptr, 0, &offset, &size);

  const char* name = nullptr;
  CALL("name", CUDA_SUCCESS, cuFuncGetName, &name, function);
  HOLDS(cuFuncGetName, "is the kernel's",
        name != nullptr && std::strcmp(name, "many_parameters") == 0, "'%s'",
        name == nullptr ? "" : name);
  CALL("no function", CUDA_ERROR_INVALID_VALUE, cuFuncGetName, &name, nullptr);
  CALL("module", CUDA_SUCCESS, cuFuncGetModule, &owner, function);
  HOLDS(cuFuncGetModule, "gives the module", owner == module, "another one");
  CALL("no function", CUDA_ERROR_INVALID_VALUE, cuFuncGetModule, &owner, nullptr);
  CUfunctionLoadingState state;
  CALL("state", CUDA_SUCCESS, cuFuncIsLoaded, &state, function);
  CALL("load", CUDA_SUCCESS, cuFuncLoad, function);
  CALL("state", CUDA_SUCCESS, cuFuncIsLoaded, &state, function);
  EQUAL(cuFuncIsLoaded, "is loaded then", state, CU_FUNCTION_LOADING_STATE_LOADED);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "functions", {{"attributes", Attributes}, {"parameters", Parameters}});
}
