// Counts in module variables of every kind, with rests, and checks each time that they hold what
// the kernels before wrote.
//
//   variables [--seconds=N | --held] [--words=N]
//
// --held: see examples/held.h.
// --words: of memory beside the variables (1), which is read back after an error.
// The last line of its output is "variables: ok rounds=..." with exit status 0, "variables: LOST
// error=..." with 3 after an error, or "variables: FAILED ..." with 1 when something was wrong.
#include <cuda_runtime.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../../examples/held.h"
#include "read_back.h"

namespace {

constexpr uint32_t kWords = 300000;
constexpr uint32_t kFirst = 1000;

__device__ uint32_t g_count;           // The host never asks for its address.
__device__ uint32_t g_start = kFirst;  // Initialised; the host asks for its address.
__device__ uint32_t g_table[kWords];
__device__ uint32_t* g_cursor;  // Points into the table.
__constant__ uint32_t g_step = 1;

struct Seen {
  uint32_t count;
  uint32_t start;
  uint32_t local;
  uint32_t pointed;
  uint32_t sum;
};

__global__ void Count(Seen* seen) {
  static uint32_t local = 5;
  if (g_cursor == nullptr) g_cursor = g_table + kWords - 1;
  g_count += g_step;
  g_start += g_step;
  local += g_step;
  *g_cursor += g_step;
  g_table[g_count % 1000] += 1;
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 1000; ++i) sum += g_table[i];
  *seen = {g_count, g_start, local, g_table[kWords - 1], sum};
}

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Memory that is written once.
struct Beside {
  std::vector<uint32_t> words;
  uint32_t* device = nullptr;
  size_t bytes() const { return words.size() * sizeof(uint32_t); }
};

int Lost(cudaError_t error, uint32_t rounds, const Beside& beside) {
  std::fprintf(stderr, "%s\n", cudaGetErrorName(error));
  std::vector<uint32_t> left(beside.words.size());
  const int result = ReadBackMemory(left.data(), beside.device, beside.bytes());
  if (result != 0 || left != beside.words) {
    std::printf("variables: FAILED error=%d, and what is left is not read: %d\n", error, result);
    return 1;
  }
  std::printf("variables: LOST error=%d rounds=%u\n", error, rounds);
  return 3;
}

int Run(double seconds, bool held, uint32_t words) {
  Seen* device = nullptr;
  Beside beside;
  for (uint32_t i = 0; i < words; ++i) beside.words.push_back(i * 7);
  cudaError_t error = cudaMalloc(&device, sizeof(Seen));
  if (error == cudaSuccess) error = cudaMalloc(&beside.device, beside.bytes());
  if (error == cudaSuccess) {
    error = cudaMemcpy(beside.device, beside.words.data(), beside.bytes(), cudaMemcpyHostToDevice);
  }
  const double end = Now() + seconds;
  uint32_t rounds = 0;
  while (error == cudaSuccess && (held ? IsHeld() : Now() < end)) {
    ++rounds;
    Count<<<1, 1>>>(device);
    Seen seen = {};
    error = cudaMemcpy(&seen, device, sizeof(seen), cudaMemcpyDeviceToHost);
    uint32_t start = 0;
    if (error == cudaSuccess) error = cudaMemcpyFromSymbol(&start, g_start, sizeof(start));
    if (error != cudaSuccess) break;
    const Seen right = {rounds, kFirst + rounds, 5 + rounds, rounds, rounds};
    if (std::memcmp(&seen, &right, sizeof(seen)) != 0 || start != kFirst + rounds) {
      std::printf("variables: FAILED count=%u start=%u,%u local=%u pointed=%u sum=%u rounds=%u\n",
                  seen.count, seen.start, start, seen.local, seen.pointed, seen.sum, rounds);
      return 1;
    }
    if (held && rounds == 1) SayThatItGoesOn("variables");
    const timespec nap = {0, 5'000'000};
    nanosleep(&nap, nullptr);
  }
  if (error != cudaSuccess) return Lost(error, rounds, beside);
  std::printf("variables: ok rounds=%u\n", rounds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 3;
  bool held = false;
  uint32_t words = 1;
  for (int i = 1; i < argc; ++i) {
    held = held || IsHeldFlag(argv[i]);
    if (std::strncmp(argv[i], "--seconds=", 10) == 0) seconds = std::atof(argv[i] + 10);
    if (std::strncmp(argv[i], "--words=", 8) == 0) words = std::atoi(argv[i] + 8);
  }
  return Run(seconds, held, words);
}
