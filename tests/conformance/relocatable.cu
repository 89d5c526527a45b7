// A program with relocatable device code: its image is a wrapper of version 2.
#include <cuda_runtime.h>

#include "setting.h"

namespace conformance {
namespace {

__device__ int g_base = 40;
__device__ __noinline__ int AddBase(int value) { return value + g_base; }
__global__ void Fill(int* out) { out[threadIdx.x] = AddBase(static_cast<int>(threadIdx.x)); }

void Launch() {
  int* memory = nullptr;
  int out[32] = {};
  Mark("cuLibraryLoadData", "wrapper of version 2");
  const cudaError_t loaded = cudaMalloc(&memory, sizeof(out));
  Fill<<<1, 32>>>(memory);
  const cudaError_t launched = cudaGetLastError();
  const cudaError_t copied = cudaMemcpy(out, memory, sizeof(out), cudaMemcpyDeviceToHost);
  // nvcc puts only linked cubins into such an image.
  if (on_cpu() && launched != cudaSuccess) {
    Line(launched == cudaErrorNoKernelImageForDevice ? "refused" : "FAIL",
         cudaGetErrorName(launched));
    return;
  }
  Line(loaded == cudaSuccess && launched == cudaSuccess && copied == cudaSuccess ? "ok" : "FAIL",
       (std::string(cudaGetErrorName(loaded)) + ", " + cudaGetErrorName(launched) + ", " +
        cudaGetErrorName(copied))
           .c_str());
  EQUAL(cuLibraryLoadData, "kernel of a wrapper of version 2", out[31], 71);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "relocatable", {{"launch", Launch}});
}
