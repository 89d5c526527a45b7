// One of several programs that share a GPU by NVIDIA's Multi-Process Service, for bench/mps.py.
//
//   mps [--seconds=N] [--rounds=N] [--blocks=N] [--fault_after=N]
//
// Says on how many multiprocessors its blocks ran, and then launches kernels of a fixed amount of
// arithmetic for so long, now and then with a line of how many were complete; with --fault_after it
// writes to an address that it does not have after so many seconds. Each line of the output is a
// JSON object. The last one has the error that ended it, such as cudaErrorIllegalAddress, or
// cudaSuccess, and when that was (CLOCK_MONOTONIC, seconds).
#include <cuda_runtime.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr int kThreads = 256;
constexpr int kMostMultiprocessors = 1024;
// More are not in the stream at a time, so that what is launched is soon complete.
constexpr int kBatch = 16;
constexpr double kSayEach = 0.25;  // Seconds.

__global__ void Work(float* data, int rounds) {
  const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = data[i];
  for (int r = 0; r < rounds; ++r) a = fmaf(a, 1.0001f, 0.5f);
  data[i] = a;
}

// Each block says where it runs, and stays for a while, so that there are others everywhere else.
__global__ void Census(int* seen, float* data, int rounds) {
  unsigned multiprocessor;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  if (multiprocessor < kMostMultiprocessors) seen[multiprocessor] = 1;
  float a = data[threadIdx.x];
  for (int r = 0; r < rounds; ++r) a = fmaf(a, 1.0001f, 0.5f);
  data[threadIdx.x] = a;
}

__global__ void Fault(int* nowhere) { *nowhere = 1; }

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Options {
  int rounds = 4000, blocks = 2112;
  double seconds = 5, fault_after = 0;
};

class Member {
 public:
  explicit Member(const Options& options) : options_(options) {}

  // Until the time is over, or something fails.
  cudaError_t Run() {
    cudaError_t error = Begin();
    if (error == cudaSuccess) error = Count();
    const double start = Now();
    double said = start;
    while (error == cudaSuccess && Now() - start < options_.seconds) {
      if (options_.fault_after > 0 && Now() - start >= options_.fault_after) {
        Fault<<<1, 1>>>(reinterpret_cast<int*>(0xdead0000beef0000));
      }
      for (int i = 0; i < kBatch; ++i) Work<<<options_.blocks, kThreads>>>(data_, options_.rounds);
      error = cudaDeviceSynchronize();
      if (error == cudaSuccess) complete_ += kBatch;
      if (Now() - said < kSayEach && error == cudaSuccess) continue;
      said = Now();
      std::printf("{\"at\": %.3f, \"kernels\": %ld}\n", said, complete_);
      std::fflush(stdout);
    }
    return error;
  }

 private:
  cudaError_t Begin() {
    const size_t bytes = size_t(options_.blocks) * kThreads * sizeof(float);
    cudaError_t error = cudaMalloc(&data_, bytes);
    if (error == cudaSuccess) error = cudaMemset(data_, 0, bytes);
    if (error == cudaSuccess) error = cudaMalloc(&seen_, kMostMultiprocessors * sizeof(int));
    if (error == cudaSuccess) error = cudaMemset(seen_, 0, kMostMultiprocessors * sizeof(int));
    return error;
  }

  cudaError_t Count() {
    Census<<<options_.blocks, kThreads>>>(seen_, data_, 100 * options_.rounds);
    std::vector<int> seen(kMostMultiprocessors);
    const cudaError_t error =
        cudaMemcpy(seen.data(), seen_, seen.size() * sizeof(int), cudaMemcpyDeviceToHost);
    if (error != cudaSuccess) return error;
    std::printf("{\"multiprocessors\": %d}\n",
                static_cast<int>(std::count(seen.begin(), seen.end(), 1)));
    std::fflush(stdout);
    return cudaSuccess;
  }

  const Options options_;
  float* data_ = nullptr;
  int* seen_ = nullptr;
  long complete_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const char* const value = std::strchr(argv[i], '=');
    const auto is = [&](const char* name) {
      return value != nullptr && std::strncmp(argv[i], name, std::strlen(name)) == 0 &&
             argv[i] + std::strlen(name) == value;
    };
    if (is("--seconds")) {
      options.seconds = std::atof(value + 1);
    } else if (is("--rounds")) {
      options.rounds = std::atoi(value + 1);
    } else if (is("--blocks")) {
      options.blocks = std::atoi(value + 1);
    } else if (is("--fault_after")) {
      options.fault_after = std::atof(value + 1);
    } else {
      std::fprintf(stderr, "mps: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  const cudaError_t error = Member(options).Run();
  std::printf("{\"ended\": \"%s\", \"at\": %.3f}\n", cudaGetErrorName(error), Now());
  return 0;
}
