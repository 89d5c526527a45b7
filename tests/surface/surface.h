// Shared by the programs of this folder: entry points of libcuda.so.1 by their symbols, and a small
// computation that shows that the session still works.
#ifndef WARPLINE_TESTS_SURFACE_SURFACE_H_
#define WARPLINE_TESTS_SURFACE_SURFACE_H_

#define __CUDA_API_VERSION_INTERNAL

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" CUresult CUDAAPI cuProfilerStart();
extern "C" CUresult CUDAAPI cuProfilerStop();

namespace surface {

inline void* Symbol(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(2);
  }
  return dlsym(library, name);
}

#define SURFACE_CALL(fn) (reinterpret_cast<decltype(&(fn))>(::surface::Symbol(#fn)))

inline constexpr char kPtx[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry triple(.param .u64 words) {
  .reg .b32 %r<3>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [words];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  mul.lo.u32 %r2, %r2, 3;
  st.global.u32 [%rd3], %r2;
  ret;
}
)";

// Retains the primary context and makes it current, whatever was called before.
inline CUcontext TakeContext() {
  CUcontext context = nullptr;
  if (SURFACE_CALL(cuInit)(0) != CUDA_SUCCESS ||
      SURFACE_CALL(cuDevicePrimaryCtxRetain)(&context, 0) != CUDA_SUCCESS ||
      SURFACE_CALL(cuCtxSetCurrent)(context) != CUDA_SUCCESS) {
    return nullptr;
  }
  return context;
}

// Copies words to the device, has a kernel change them and reads them back.
inline bool Computes() {
  constexpr unsigned kWords = 64;
  constexpr size_t kBytes = kWords * sizeof(unsigned);
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUdeviceptr memory = 0;
  std::vector<unsigned> words(kWords);
  for (unsigned i = 0; i < kWords; ++i) words[i] = i;
  void* parameters[] = {&memory};
  const bool ran = TakeContext() != nullptr &&
                   SURFACE_CALL(cuModuleLoadData)(&module, kPtx) == CUDA_SUCCESS &&
                   SURFACE_CALL(cuModuleGetFunction)(&kernel, module, "triple") == CUDA_SUCCESS &&
                   SURFACE_CALL(cuMemAlloc_v2)(&memory, kBytes) == CUDA_SUCCESS &&
                   SURFACE_CALL(cuMemcpyHtoD_v2)(memory, words.data(), kBytes) == CUDA_SUCCESS &&
                   SURFACE_CALL(cuLaunchKernel)(kernel, 1, 1, 1, kWords, 1, 1, 0, nullptr,
                                                parameters, nullptr) == CUDA_SUCCESS &&
                   SURFACE_CALL(cuMemcpyDtoH_v2)(words.data(), memory, kBytes) == CUDA_SUCCESS &&
                   SURFACE_CALL(cuMemFree_v2)(memory) == CUDA_SUCCESS &&
                   SURFACE_CALL(cuModuleUnload)(module) == CUDA_SUCCESS;
  for (unsigned i = 0; i < kWords; ++i) {
    if (words[i] != 3 * i) return false;
  }
  return ran;
}

inline int g_failures = 0;

inline void Fail(const char* symbol, const char* what, int got) {
  std::printf("FAIL %s: %s gives %d\n", symbol, what, got);
  std::fflush(stdout);
  ++g_failures;
}

}  // namespace surface

#endif  // WARPLINE_TESTS_SURFACE_SURFACE_H_
