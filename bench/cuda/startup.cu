// Times a program's start: from entering cuInit to the first synchronize returned, with a context,
// a module of the device's own architecture and one launch in between. --hold keeps the context
// until the standard input ends, for measuring what an idle session costs.
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "timing.h"

__global__ void Touch(int* value) { *value += 1; }

int main(int argc, char** argv) {
  const bool hold = argc > 1 && std::strcmp(argv[1], "--hold") == 0;
  // Loading the library is the dynamic linker's time, not the driver's.
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) {
    std::fprintf(stderr, "startup: %s\n", dlerror());
    return 1;
  }
  const auto init = reinterpret_cast<decltype(&cuInit)>(dlsym(driver, "cuInit"));
  const double start = bench::NowUs();
  const CUresult initialized = init(0);
  if (initialized != CUDA_SUCCESS) {
    std::fprintf(stderr, "startup: cuInit: %d\n", static_cast<int>(initialized));
    return 1;
  }
  const double after_init = bench::NowUs();
  int* value = nullptr;
  cudaMalloc(&value, sizeof(int));
  cudaMemset(value, 0, sizeof(int));
  Touch<<<1, 1>>>(value);
  const cudaError_t synchronized = cudaDeviceSynchronize();
  const double end = bench::NowUs();
  int result = 0;
  const cudaError_t copied = cudaMemcpy(&result, value, sizeof(int), cudaMemcpyDeviceToHost);
  if (synchronized != cudaSuccess || copied != cudaSuccess || result != 1) {
    std::fprintf(stderr, "startup: %s, result %d\n", cudaGetErrorString(cudaGetLastError()),
                 result);
    return 1;
  }
  bench::Print("cuInit", (after_init - start) * 1e-3, "ms");
  bench::Print("cuInit_to_synchronize", (end - start) * 1e-3, "ms");
  if (hold) {
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
  }
  return 0;
}
