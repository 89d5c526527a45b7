// Two tenants of one GPU: one whose kernel never ends, and one whose requests have to get past it.
//
//   make_way --role=effort [--blocks=N]
//   make_way --role=urgent [--blocks=N] [--kernels=N] [--rounds=N | --kernel_us=N]
//
// `effort` launches a kernel that does not end by itself, says "launched", and waits for it: the
// last line of its output is a JSON object with the error that ended it, after how many seconds,
// and when by CLOCK_MONOTONIC. `urgent` says "ready", and then, for each line of its input, makes a
// request: so many kernels, one after the other, each waited for. It says how many microseconds the
// request took, as a JSON object in a line. A kernel is of so many rounds, or of as many as take so
// long alone.
#include <cuda_runtime.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kThreads = 256;

// Computes, and looks seldom for a word that never comes.
__global__ void Endless(volatile unsigned* words) {
  float a = static_cast<float>(threadIdx.x);
  while (words[0] != 7) {
    for (int i = 0; i < 4096; ++i) a = fmaf(a, 1.0001f, 0.5f);
  }
  if (a == 0.f) words[1] = 1;
}

__global__ void Layer(float* data, int rounds) {
  const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = data[i];
  for (int r = 0; r < rounds; ++r) a = fmaf(a, 1.0001f, 0.5f);
  data[i] = a;
}

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "make_way: %s: %s\n", what, cudaGetErrorName(error));
  std::exit(1);
}
#define CHECK(call) Check(call, #call)

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void Say(const char* line) {
  std::printf("%s\n", line);
  std::fflush(stdout);
}

struct Options {
  const char* role = "";
  int blocks = 1056, kernels = 1, rounds = 0;
  double kernel_us = 100;
};

int Effort(const Options& options) {
  unsigned* words = nullptr;
  CHECK(cudaMalloc(&words, 4096));
  CHECK(cudaMemset(words, 0, 4096));
  CHECK(cudaDeviceSynchronize());
  const double start = Now();
  Endless<<<options.blocks, kThreads>>>(words);
  const cudaError_t launched = cudaGetLastError();
  Say("launched");
  const cudaError_t ended = launched == cudaSuccess ? cudaDeviceSynchronize() : launched;
  const double now = Now();
  std::printf("{\"error\": \"%s\", \"seconds\": %.6f, \"at\": %.6f}\n", cudaGetErrorName(ended),
              now - start, now);
  return 0;
}

class Requests {
 public:
  explicit Requests(const Options& options) : options_(options), rounds_(options.rounds) {
    const size_t bytes = size_t(options.blocks) * kThreads * sizeof(float);
    CHECK(cudaMalloc(&data_, bytes));
    CHECK(cudaMemset(data_, 0, bytes));
    if (rounds_ == 0) Calibrate();
    Request();
  }

  // Seconds.
  double Request() {
    const double start = Now();
    for (int i = 0; i < options_.kernels; ++i) {
      Layer<<<options_.blocks, kThreads>>>(data_, rounds_);
      CHECK(cudaDeviceSynchronize());
    }
    return Now() - start;
  }

 private:
  void Calibrate() {
    rounds_ = 1000;
    for (int i = 0; i < 6; ++i) {
      const double factor = options_.kernel_us * 1e-6 * options_.kernels / Request();
      rounds_ = std::clamp(static_cast<int>(rounds_ * std::clamp(factor, 0.1, 10.0)), 1, 500000000);
    }
  }

  const Options options_;
  int rounds_;
  float* data_ = nullptr;
};

int Urgent(const Options& options) {
  Requests requests(options);
  Say("ready");
  char line[64];
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    std::printf("{\"request_us\": %.1f}\n", requests.Request() * 1e6);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const char* const value = std::strchr(argv[i], '=');
    const auto is = [&](const char* name) {
      return value != nullptr && std::strncmp(argv[i], name, std::strlen(name)) == 0;
    };
    if (is("--role=")) options.role = value + 1;
    if (is("--blocks=")) options.blocks = std::atoi(value + 1);
    if (is("--kernels=")) options.kernels = std::atoi(value + 1);
    if (is("--rounds=")) options.rounds = std::atoi(value + 1);
    if (is("--kernel_us=")) options.kernel_us = std::atof(value + 1);
  }
  if (std::strcmp(options.role, "effort") == 0) return Effort(options);
  if (std::strcmp(options.role, "urgent") == 0) return Urgent(options);
  std::fprintf(stderr, "make_way: --role=effort or --role=urgent\n");
  return 2;
}
