// Kernels, as CUfunction and as CUkernel: one handle serves as both.
#include "client_stub/core/module/kernel.h"
#include "client_stub/core/module/module.h"
#include "client_stub/core/runtime/runtime.h"

using namespace warpline::stub;

namespace {

template <typename Handle>
CUresult EnterFor(Handle handle, Kernel** kernel) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(SessionError());
  return FindFunction(NumberOf(handle), kernel);
}

// Enters a call about a kernel on a device.
CUresult EnterFor(CUkernel handle, CUdevice device, Kernel** kernel) {
  WARPLINE_TRY(EnterInitialized());
  WARPLINE_TRY(SessionError());
  if (FindKernel(NumberOf(handle)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  WARPLINE_TRY(CheckDevice(device));
  return FindKernelOn(NumberOf(handle), &runtime().devices[device], kernel);
}

// Some calls return a different error for no function at all than for a wrong handle.
template <typename Handle>
CUresult CheckGiven(Handle function) {
  WARPLINE_TRY(EnterInitialized());
  return function == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

template <typename Handle>
CUresult GetName(const char** name, Handle handle) {
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(handle, &kernel));
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

bool ValidCacheConfig(CUfunc_cache config) {
  return config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(hfunc, &kernel));
  return GetKernelAttribute(*kernel, attrib, pi);
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(hfunc, &kernel));
  return SetKernelAttribute(kernel, attrib, value);
}

// This is a preference, which CUDA lets a driver disregard.
CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(hfunc, &kernel));
  return ValidCacheConfig(config) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig) {
  Kernel* kernel;
  return EnterFor(hfunc, &kernel);
}

CUresult CUDAAPI cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  WARPLINE_TRY(CheckGiven(hfunc));
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(hfunc, &kernel));
  if (hmod == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *hmod = kernel->module->ModuleHandle();
  return *hmod == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetName(const char** name, CUfunction hfunc) {
  WARPLINE_TRY(CheckGiven(hfunc));
  return GetName(name, hfunc);
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset,
                                    size_t* paramSize) {
  WARPLINE_TRY(CheckGiven(func));
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(func, &kernel));
  return GetParameterInfo(*kernel, paramIndex, paramOffset, paramSize);
}

// Every kernel is loaded: the server had to load it to report its attributes.
CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(function, &kernel));
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncLoad(CUfunction function) {
  Kernel* kernel;
  return EnterFor(function, &kernel);
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
  WARPLINE_TRY(EnterContext());
  Kernel* found;
  WARPLINE_TRY(EnterFor(kernel, &found));
  if (pFunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pFunc = FunctionOf(found);
  return *pFunc == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel,
                                      CUdevice dev) {
  Kernel* found;
  WARPLINE_TRY(EnterFor(kernel, dev, &found));
  return GetKernelAttribute(*found, attrib, pi);
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                                      CUdevice dev) {
  Kernel* found;
  WARPLINE_TRY(EnterFor(kernel, dev, &found));
  return SetKernelAttribute(found, attrib, val);
}

CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  Kernel* found;
  WARPLINE_TRY(EnterFor(kernel, dev, &found));
  return ValidCacheConfig(config) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuKernelGetName(const char** name, CUkernel hfunc) {
  WARPLINE_TRY(CheckGiven(hfunc));
  return GetName(name, hfunc);
}

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset,
                                      size_t* paramSize) {
  Kernel* found;
  WARPLINE_TRY(EnterFor(kernel, &found));
  // A kernel is of no context, but the driver loads it into the current one for this.
  WARPLINE_TRY(EnterContext());
  return GetParameterInfo(*found, paramIndex, paramOffset, paramSize);
}

}  // extern "C"
