// Copies large pieces of ordinary memory, and of page-locked memory, to the device and back, and
// checks every byte; several threads may do so at a time.
//
//   large_copies [--mib=N] [--rounds=N | --held] [--threads=N] [--seed=N]
//
// --held: one thread, which says `large_copies: goes on` after each round, with nothing in flight,
// and makes the next one for each line on its standard input, until that ends.
// Prints `large_copies: ok gbps_in=... gbps_out=...`, which are of ordinary memory, of the fastest
// round. Ends with 1 when something is wrong.
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../../examples/held.h"

namespace {

struct Options {
  long mib = 64, rounds = 2, threads = 1, seed = 1;
  bool held = false;
};

void Check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::printf("large_copies: FAILED %s: %s\n", what, cudaGetErrorString(result));
  std::exit(1);
}

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

void Fill(std::vector<uint32_t>* words, uint64_t seed) {
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (uint32_t& word : *words) {
    state = state * 6364136223846793005 + 1442695040888963407;
    word = static_cast<uint32_t>(state >> 32);
  }
}

std::atomic<double> g_in{0}, g_out{0};

void Fastest(std::atomic<double>* figure, double value) {
  double before = figure->load();
  while (before < value && !figure->compare_exchange_weak(before, value)) {
  }
}

void Copy(const Options& options, long thread) {
  const size_t bytes = static_cast<size_t>(options.mib) << 20;
  std::vector<uint32_t> source(bytes / 4), target(bytes / 4);
  uint32_t* pinned = nullptr;
  void* device = nullptr;
  Check(cudaMallocHost(&pinned, bytes), "cudaMallocHost");
  Check(cudaMalloc(&device, bytes), "cudaMalloc");
  for (long round = 0; options.held || round < options.rounds; ++round) {
    Fill(&source, static_cast<uint64_t>((options.seed << 16) + (thread << 8) + round));
    auto begin = std::chrono::steady_clock::now();
    Check(cudaMemcpy(device, source.data(), bytes, cudaMemcpyHostToDevice), "to the device");
    Check(cudaDeviceSynchronize(), "synchronize");
    Fastest(&g_in, static_cast<double>(bytes) / 1e9 / Seconds(begin));
    begin = std::chrono::steady_clock::now();
    Check(cudaMemcpy(target.data(), device, bytes, cudaMemcpyDeviceToHost), "to the host");
    Fastest(&g_out, static_cast<double>(bytes) / 1e9 / Seconds(begin));
    const bool right = target == source;
    Fill(&source, static_cast<uint64_t>((options.seed << 16) + (thread << 8) + round + 128));
    std::memcpy(pinned, source.data(), bytes);
    Check(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice), "of page-locked memory");
    Check(cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost), "to page-locked memory");
    Check(cudaDeviceSynchronize(), "synchronize");
    if (!right || std::memcmp(pinned, source.data(), bytes) != 0) {
      std::printf("large_copies: FAILED wrong bytes of %s memory\n",
                  right ? "page-locked" : "host");
      std::exit(1);
    }
    if (options.held) {
      SayThatItGoesOn("large_copies");
      if (!AwaitStep()) break;
    }
  }
  Check(cudaFree(device), "cudaFree");
  Check(cudaFreeHost(pinned), "cudaFreeHost");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto take = [&](const char* name, long* value) {
      const std::string flag = std::string("--") + name + "=";
      if (argument.rfind(flag, 0) == 0) *value = std::atol(argument.c_str() + flag.size());
    };
    take("mib", &options.mib);
    take("rounds", &options.rounds);
    take("threads", &options.threads);
    take("seed", &options.seed);
    options.held = options.held || IsHeldFlag(argv[i]);
  }
  Check(cudaFree(nullptr), "context");
  std::vector<std::thread> threads;
  for (long i = 0; i < options.threads; ++i) threads.emplace_back(Copy, options, i);
  for (std::thread& thread : threads) thread.join();
  std::printf("large_copies: ok gbps_in=%.2f gbps_out=%.2f\n", g_in.load(), g_out.load());
  return 0;
}
