// A program whose module is large enough to be kept by servers. Prints how long its first kernel
// took, from the call to the result.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>

namespace {

template <int kNumber>
__global__ void Mix(float* values) {
  float x = values[threadIdx.x];
  for (int i = 0; i < kNumber % 5 + 1; ++i) x = x * (kNumber + 0.5f) / (1.0f + x) + kNumber;
  values[threadIdx.x] = x;
}

// Uses the kernel of every number up to kNumber, so that the module contains all of them.
template <int kNumber>
struct Kernels {
  static void Launch(int number, float* values) {
    if (number == kNumber) {
      Mix<kNumber><<<1, 32>>>(values);
    } else {
      Kernels<kNumber - 1>::Launch(number, values);
    }
  }
};

template <>
struct Kernels<0> {
  static void Launch(int, float* values) { Mix<0><<<1, 32>>>(values); }
};

}  // namespace

int main() {
  float* values = nullptr;
  cudaError_t error = cudaMalloc(&values, 32 * sizeof(float));
  if (error == cudaSuccess) error = cudaMemset(values, 0, 32 * sizeof(float));
  const auto start = std::chrono::steady_clock::now();
  Kernels<100>::Launch(9, values);
  float host[32] = {};
  if (error == cudaSuccess) {
    error = cudaMemcpy(host, values, sizeof(host), cudaMemcpyDeviceToHost);
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  float expected = 0.0f;
  for (int i = 0; i < 5; ++i) expected = expected * 9.5f / (1.0f + expected) + 9.0f;
  const float difference = host[31] - expected;
  const bool right = difference < 0.01f && difference > -0.01f;
  std::printf("first kernel us %.0f\n", took.count());
  std::printf("large_module: %s\n", error != cudaSuccess ? cudaGetErrorString(error)
                                    : right              ? "ok"
                                                         : "wrong result");
  return error == cudaSuccess && right ? 0 : 1;
}
