// The kernels that the conformance programs load, in every form of image.
extern "C" {

__device__ unsigned step = 7;
__constant__ unsigned table[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

__global__ void affine(unsigned* out, const unsigned* in, unsigned a, unsigned b, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * in[i] + b;
}

__global__ void add_step(unsigned* total) { atomicAdd(total, step); }

__global__ void read_table(unsigned* out) { out[threadIdx.x] = table[threadIdx.x]; }

// Takes a while: `iterations` dependent steps of one thread.
__global__ void busy(unsigned iterations, unsigned* out) {
  unsigned x = iterations;
  for (unsigned i = 0; i < iterations; ++i) x = x * 1664525u + 1013904223u;
  *out = x;
}

__global__ void nothing() {}

// Writes the number of each thread of a grid of up to three dimensions to its own place.
__global__ void places(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  out[i] = i * 3 + 1;
}

struct Twelve {
  int words[3];
};

__global__ void many_parameters(char a, short b, int c, long long d, float e, Twelve f, double g,
                                unsigned long long* out) {
  *out = static_cast<unsigned long long>(a) + b + c + d + static_cast<long long>(e) + f.words[0] +
         f.words[1] + f.words[2] + static_cast<long long>(g);
}

// Reverses n words in dynamic shared memory.
__global__ void reverse(unsigned* words, unsigned n) {
  extern __shared__ unsigned shared[];
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) shared[i] = words[i];
  __syncthreads();
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) words[i] = shared[n - 1 - i];
}

__global__ void static_shared(unsigned* out) {
  __shared__ unsigned words[256];
  words[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = words[blockDim.x - 1 - threadIdx.x];
}

__global__ void __launch_bounds__(128) bounded(unsigned* out) { out[threadIdx.x] = threadIdx.x; }

// Waits for the host, which may wait for its answer in turn.
__global__ void await_word(volatile unsigned* flag, volatile unsigned* answer) {
  while (*flag == 0) {
  }
  *answer = *flag + 1;
}

__global__ void store(unsigned* address, unsigned value) { *address = value; }

}  // extern "C"
