// The calls of a small CUDA program through the static runtime library. Exits with 0 if all
// succeed; a runtime that does not trust its driver fails the first with error 103.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#define CHECK(call)                                                               \
  do {                                                                            \
    const cudaError_t error = (call);                                             \
    if (error != cudaSuccess) {                                                   \
      std::fprintf(stderr, "%s: %d %s\n", #call, error, cudaGetErrorName(error)); \
      std::exit(1);                                                               \
    }                                                                             \
  } while (0)

__global__ void Add(const float* a, const float* b, float* sum) {
  sum[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}

static void UseDevice(int device) {
  constexpr int kCount = 64;
  CHECK(cudaSetDevice(device));
  float host[kCount];
  for (int i = 0; i < kCount; ++i) host[i] = static_cast<float>(i);
  float* memory = nullptr;
  CHECK(cudaMalloc(&memory, 3 * sizeof(host)));
  CHECK(cudaMemcpy(memory, host, sizeof(host), cudaMemcpyHostToDevice));
  Add<<<1, kCount>>>(memory, memory, memory + kCount);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamDestroy(stream));
  float back[kCount];
  CHECK(cudaMemcpy(back, memory, sizeof(back), cudaMemcpyDeviceToHost));
  if (std::memcmp(host, back, sizeof(host)) != 0) std::exit(2);
  CHECK(cudaFree(memory));
}

int main(int, char** argv) {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  if (count != std::atoi(argv[1])) return 3;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, i));
    if (properties.major != 7 || properties.pciBusID != 65 + i) return 4;
    UseDevice(i);
  }
  std::thread(UseDevice, 0).join();
  CHECK(cudaSetDevice(0));
  CHECK(cudaDeviceReset());
  UseDevice(0);
  return 0;
}
