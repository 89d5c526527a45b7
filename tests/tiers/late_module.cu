// Runs a kernel of its own and then loads the modules that it is told: `late_module FILE...`. For
// each it prints the driver's result as a number. The driver is opened by hand, so that nothing is
// needed at link time.
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdio>

namespace {

__global__ void Double(int* value) { *value *= 2; }

bool RunKernel() {
  int *device = nullptr, value = 21;
  if (cudaMalloc(&device, sizeof(value)) != cudaSuccess) return false;
  cudaMemcpy(device, &value, sizeof(value), cudaMemcpyHostToDevice);
  Double<<<1, 1>>>(device);
  const cudaError_t error = cudaMemcpy(&value, device, sizeof(value), cudaMemcpyDeviceToHost);
  return error == cudaSuccess && cudaGetLastError() == cudaSuccess && value == 42;
}

}  // namespace

int main(int argc, char** argv) {
  std::printf("kernel: %s\n", RunKernel() ? "ok" : "failed");
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  using Load = CUresult (*)(CUmodule*, const char*);
  const auto load =
      driver == nullptr ? nullptr : reinterpret_cast<Load>(dlsym(driver, "cuModuleLoad"));
  if (load == nullptr) return 1;
  for (int i = 1; i < argc; ++i) {
    CUmodule module = nullptr;
    std::printf("module: %d\n", static_cast<int>(load(&module, argv[i])));
  }
  return 0;
}
