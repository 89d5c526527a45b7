// Counts in the memory of each of two devices, and copies from one to the other.
//
//   both_devices --held
//
// --held: see examples/held.h. The last line is `both_devices: ok rounds=...`, or
// `both_devices: FAILED ...`, with exit status 1.
#include <cuda_runtime.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../../examples/held.h"

namespace {

constexpr unsigned kWords = 100'000;

__global__ void Count(unsigned* data, unsigned words) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < words) ++data[i];
}

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("both_devices: FAILED %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

void Expect(const unsigned* memory, unsigned rounds, const char* what) {
  std::vector<unsigned> words(kWords);
  Check(cudaMemcpy(words.data(), memory, kWords * sizeof(unsigned), cudaMemcpyDefault), what);
  for (unsigned i = 0; i < kWords; ++i) {
    if (words[i] == rounds) continue;
    std::printf("both_devices: FAILED %s: word %u is %u, not %u\n", what, i, words[i], rounds);
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  unsigned* counts[2];
  unsigned* copy = nullptr;  // On the second device.
  for (int device = 0; device < 2; ++device) {
    Check(cudaSetDevice(device), "cudaSetDevice");
    Check(cudaMalloc(&counts[device], kWords * sizeof(unsigned)), "cudaMalloc");
    Check(cudaMemset(counts[device], 0, kWords * sizeof(unsigned)), "cudaMemset");
  }
  Check(cudaMalloc(&copy, kWords * sizeof(unsigned)), "cudaMalloc");
  if (argc > 1 && IsHeldFlag(argv[1])) SayThatItGoesOn("both_devices");
  unsigned rounds = 0;
  do {
    for (int device = 0; device < 2; ++device) {
      Check(cudaSetDevice(device), "cudaSetDevice");
      Count<<<(kWords + 255) / 256, 256>>>(counts[device], kWords);
      Check(cudaDeviceSynchronize(), "a kernel");
    }
    Check(cudaMemcpyPeer(copy, 1, counts[0], 0, kWords * sizeof(unsigned)), "a copy");
    ++rounds;
    Expect(copy, rounds, "the copy");
    const timespec nap = {0, 5'000'000};
    nanosleep(&nap, nullptr);
  } while (IsHeld());
  Expect(counts[0], rounds, "the first device");
  Expect(counts[1], rounds, "the second device");
  std::printf("both_devices: ok rounds=%u\n", rounds);
  return 0;
}
