// Computes for a while, checks what it gets, and says how much it got done: the honest session of
// the suite "share".
//
//   share_program [--seconds=N]
//
// The last line of its output is `share_program: rounds=R seconds=S`, the first round not counted.
#include <cuda_runtime.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// Enough blocks for every processor. Kernels are queued, as throughput is what counts: a program
// that waits for each short one is slow on a busy machine however fair its share is.
constexpr int kBlocks = 64;
constexpr int kThreads = 32;
constexpr uint32_t kTurns = 1000;
constexpr int kQueued = 4;

__global__ void Mix(uint32_t* data, uint32_t turns) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t value = data[i];
  for (uint32_t turn = 0; turn < turns; ++turn) value = value * 1664525u + 1013904223u + i;
  data[i] = value;
}

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

bool Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return true;
  std::printf("share_program: FAILED %s: %s\n", what, cudaGetErrorName(error));
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 5;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--seconds=", 10) == 0) seconds = std::atof(argv[i] + 10);
  }
  constexpr int kWords = kBlocks * kThreads;
  static uint32_t expected[kWords];
  static uint32_t got[kWords];
  uint32_t* data = nullptr;
  if (!Check(cudaMalloc(&data, sizeof(got)), "cudaMalloc") ||
      !Check(cudaMemset(data, 0, sizeof(got)), "cudaMemset")) {
    return 1;
  }
  uint32_t rounds = 0;
  double start = 0;
  double end = 0;
  // The first round makes the session and loads the module.
  for (bool first = true; first || end - start < seconds; first = false) {
    for (int i = 0; i < kQueued; ++i) Mix<<<kBlocks, kThreads>>>(data, kTurns);
    if (!Check(cudaGetLastError(), "launch") ||
        !Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize")) {
      return 1;
    }
    end = Now();
    if (first) {
      start = end;
    } else {
      ++rounds;
    }
  }
  if (!Check(cudaMemcpy(got, data, sizeof(got), cudaMemcpyDeviceToHost), "cudaMemcpy")) return 1;
  for (uint32_t i = 0; i < kWords; ++i) {
    for (uint32_t turn = 0; turn < (rounds + 1) * kQueued * kTurns; ++turn) {
      expected[i] = expected[i] * 1664525u + 1013904223u + i;
    }
  }
  if (std::memcmp(expected, got, sizeof(got)) != 0) {
    std::printf("share_program: FAILED wrong results\n");
    return 1;
  }
  std::printf("share_program: rounds=%u seconds=%.3f\n", rounds, end - start);
  return 0;
}
