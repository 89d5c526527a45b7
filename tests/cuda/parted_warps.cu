// Kernels with several barriers, for guarded sessions.
//
//   parted_warps          blocks that end with a part of a warp, and threads that return at once
//   parted_warps --part=1 parts of one warp at barriers of different numbers, which without a guard
//                         ends the context, or waits for ever
#include <cstdio>
#include <vector>

#include "../../examples/check.h"

namespace {

constexpr int kThreads = 100;
constexpr int kInRange = 75;

// Each thread gets its neighbour's number, and how many are multiples of 3.
__global__ void Neighbours(int* out, int count) {
  __shared__ int tile[kThreads];
  const int i = static_cast<int>(threadIdx.x);
  if (i >= count) return;
  tile[i] = i;
  __syncthreads();
  const int next = tile[(i + 1) % count];
  out[i] = next + 1000 * __syncthreads_count(i % 3 == 0);
}

__global__ void Part(int* out) {
  if (threadIdx.x % 2 == 0) {
    asm volatile("bar.sync 1;" ::: "memory");
    out[threadIdx.x] = 1;
  } else {
    asm volatile("bar.sync 2;" ::: "memory");
    out[threadIdx.x] = 2;
  }
}

void ExpectNeighbours(int* device, int count) {
  CUDA_CHECK(cudaMemset(device, 0, kThreads * sizeof(int)));
  Neighbours<<<1, kThreads>>>(device, count);
  CUDA_CHECK_LAUNCH();
  std::vector<int> out(kThreads);
  CUDA_CHECK(cudaMemcpy(out.data(), device, kThreads * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kThreads; ++i) {
    const int expected = i < count ? (i + 1) % count + 1000 * ((count + 2) / 3) : 0;
    examples::Expect(out[i] == expected, "thread %d of %d has %d, expected %d", i, count, out[i],
                     expected);
  }
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "parted_warps", "kernels with several barriers");
  const long long part = options.Number("part", 0, "1: parts of a warp at different barriers");
  options.Finish();
  int* device = nullptr;
  CUDA_CHECK(cudaMalloc(&device, kThreads * sizeof(int)));
  if (part != 0) {
    Part<<<1, 32>>>(device);
    std::printf("parted_warps: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    return 0;
  }
  ExpectNeighbours(device, kThreads);
  ExpectNeighbours(device, kInRange);
  CUDA_CHECK(cudaFree(device));
  return examples::Report("%d threads", kThreads);
}
