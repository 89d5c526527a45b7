// Kernels for pacing.cu, which loads them guarded.
#include <cstdint>

extern "C" {

// A grid that stays: each thread goes round many times, and asks in its loop.
__global__ void stream_loop(uint4* to, const uint4* from, uint64_t count, uint32_t rounds) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count; i += step) {
      uint4 value = from[i];
      value.x += round;
      to[i] = value;
    }
  }
}

// A grid of many blocks without loops, as elementwise operations of frameworks are.
__global__ void stream_wide(uint4* to, const uint4* from, uint64_t count, uint32_t rounds) {
  const uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x;
  if (i >= count) return;
  uint4 value = from[i];
  value.x += rounds;
  to[i] = value;
}

// Lanes whose loops are of different lengths.
__global__ void divergent(uint32_t* out, uint32_t most) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t value = i * 2654435761u, count = 0;
  const uint32_t rounds = most / 2 + value % most;
  for (uint32_t k = 0; k < rounds; ++k) {
    value = value * 1664525u + 1013904223u;
    if ((value >> 16 & 7) == 0) count += value & 3;
  }
  out[i] = value + count;
}

// Blocks that meet at barriers in a loop.
__global__ void barriers(uint32_t* out, uint32_t rounds) {
  __shared__ uint32_t sums[256];
  sums[threadIdx.x] = threadIdx.x;
  for (uint32_t round = 0; round < rounds; ++round) {
    __syncthreads();
    const uint32_t other = sums[(threadIdx.x + 37) & 255];
    __syncthreads();
    sums[threadIdx.x] = sums[threadIdx.x] * 3 + other;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sums[threadIdx.x];
}

// A grid whose blocks wait for each other, written by hand.
__global__ void grid_barriers(uint32_t* arrived, uint32_t* out, uint32_t rounds) {
  for (uint32_t round = 1; round <= rounds; ++round) {
    __syncthreads();
    if (threadIdx.x == 0) {
      atomicAdd(arrived, 1);
      while (*reinterpret_cast<volatile uint32_t*>(arrived) < round * gridDim.x) {
      }
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = *reinterpret_cast<volatile uint32_t*>(arrived);
}

// A small request: it reads weights and adds them up.
__global__ void request(float* out, const float4* weights, uint32_t count) {
  float sum = 0;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const float4 value = weights[i];
    sum += value.x * value.y + value.z * value.w;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

}  // extern "C"
