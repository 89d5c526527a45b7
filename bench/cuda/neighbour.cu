// One of two neighbours on a GPU: a program of tiny kernels, or of requests that read 32 MiB, or
// that launches each of its kernels once, that looks how long each takes, or one that keeps the GPU
// busy in one of several ways.
//
//   neighbour
//   --role=tiny|request|first|compute|memory|atomics|shared|copies|launches|allocations|none
//             [--seconds=N] [--warmup_s=N]
//
// The last line of its output is a JSON object. Of `tiny` and `request`: how many kernels it ran,
// and the median, the 95th and 99th percentile and the maximum of what each took on the device,
// from an event before it to one behind it, and of what launch and wait took the program, in
// microseconds. Of `first`: the same of kernels that were never launched before, by program_us, and
// of the launch alone and of the wait alone; `again_us` is of the same kernels launched once more.
// Of the others: how many rounds a second they made.
#include <cuda_runtime.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr size_t kBytes = 64u << 20;
constexpr int kBlocks = 1056, kThreads = 256;
constexpr size_t kRequestBytes = 32u << 20;
constexpr int kRequestBlocks = 128;

__global__ void Tiny(uint32_t* data) { data[threadIdx.x] += 1; }

// Kernels that are launched once each.
template <int kNumber>
__global__ void Numbered(uint32_t* data) {
  data[threadIdx.x] += kNumber;
}
using NumberedKernel = void (*)(uint32_t*);
template <int... kNumbers>
std::vector<NumberedKernel> NumberedKernels(std::integer_sequence<int, kNumbers...>) {
  return {Numbered<kNumbers>...};
}

// A small inference: weights are read once.
__global__ void Request(uint32_t* out, const uint4* weights, size_t count) {
  uint32_t sum = 0;
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint4 value = weights[i];
    sum += value.x ^ value.y ^ value.z ^ value.w;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__global__ void Compute(float* data, int rounds) {
  const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = data[i], b = 1.0001f;
  for (int r = 0; r < rounds; ++r) a = fmaf(a, b, 0.5f);
  data[i] = a;
}

__global__ void Memory(uint4* to, const uint4* from, size_t count) {
  const size_t step = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) to[i] = from[i];
}

__global__ void Atomics(uint32_t* data, int rounds) {
  for (int r = 0; r < rounds; ++r) atomicAdd(&data[(threadIdx.x * 37 + r) & 1023], 1u);
}

__global__ void Shared(float* data, int rounds) {
  __shared__ float tile[kThreads];
  tile[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  float sum = 0;
  for (int r = 0; r < rounds; ++r) sum += tile[(threadIdx.x + r * 7) % kThreads];
  data[blockIdx.x * kThreads + threadIdx.x] = sum;
}

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "neighbour: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) Check(call, #call)

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// A module that the driver, or the guard, has to look at again each time.
constexpr char kModule[] = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry loaded(.param .u64 p)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, 1;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

struct Busy {
  cudaStream_t stream = nullptr;
  char* device = nullptr;
  char* other = nullptr;
  char* host = nullptr;

  void Round(const std::string& role) {
    auto* const floats = reinterpret_cast<float*>(device);
    auto* const words = reinterpret_cast<uint32_t*>(device);
    if (role == "compute") {
      Compute<<<kBlocks, kThreads, 0, stream>>>(floats, 20000);
    } else if (role == "memory") {
      Memory<<<kBlocks, kThreads, 0, stream>>>(reinterpret_cast<uint4*>(other),
                                               reinterpret_cast<uint4*>(device),
                                               kBytes / sizeof(uint4));
    } else if (role == "atomics") {
      Atomics<<<kBlocks, kThreads, 0, stream>>>(words, 200);
    } else if (role == "shared") {
      Shared<<<kBlocks, kThreads, 0, stream>>>(floats, 5000);
    } else if (role == "copies") {
      CHECK(cudaMemcpyAsync(device, host, kBytes / 4, cudaMemcpyHostToDevice, stream));
    } else if (role == "launches") {
      for (int i = 0; i < 100; ++i) Tiny<<<1, 32, 0, stream>>>(words);
    } else if (role == "allocations") {
      void* block = nullptr;
      CHECK(cudaMalloc(&block, 4u << 20));
      CHECK(cudaMemsetAsync(block, 0, 4u << 20, stream));
      CHECK(cudaStreamSynchronize(stream));
      CHECK(cudaFree(block));
      cudaLibrary_t module;
      CHECK(cudaLibraryLoadData(&module, kModule, nullptr, nullptr, 0, nullptr, nullptr, 0));
      CHECK(cudaLibraryUnload(module));
    }
    CHECK(cudaGetLastError());
  }
};

double At(std::vector<double>* values, double part) {
  if (values->empty()) return 0;
  const auto place = static_cast<size_t>(part * static_cast<double>(values->size() - 1));
  std::nth_element(values->begin(), values->begin() + static_cast<long>(place), values->end());
  return (*values)[place];
}

void RunSmall(const std::string& role, double warmup, double seconds) {
  const bool requests = role == "request";
  uint32_t* data = nullptr;
  uint4* weights = nullptr;
  cudaStream_t stream;
  cudaEvent_t before, behind;
  CHECK(cudaMalloc(&data, size_t{kRequestBlocks} * kThreads * sizeof(uint32_t)));
  if (requests) {
    CHECK(cudaMalloc(&weights, kRequestBytes));
    CHECK(cudaMemset(weights, 1, kRequestBytes));
  }
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&before));
  CHECK(cudaEventCreate(&behind));
  std::vector<double> device, program;
  const double start = Now();
  double spent = 0;
  for (double now = start; now < start + warmup + seconds; now = Now()) {
    CHECK(cudaEventRecord(before, stream));
    if (requests) {
      Request<<<kRequestBlocks, kThreads, 0, stream>>>(data, weights,
                                                       kRequestBytes / sizeof(uint4));
    } else {
      Tiny<<<1, 32, 0, stream>>>(data);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(behind, stream));
    CHECK(cudaStreamSynchronize(stream));
    const double end = Now();
    if (now < start + warmup) continue;
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, before, behind));
    device.push_back(ms * 1e3);
    program.push_back((end - now) * 1e6);
    spent += end - now;
    // As a program that does something in between.
    const timespec nap = {0, 50'000};
    nanosleep(&nap, nullptr);
  }
  // Rounds in the time that they took, without the rest between them.
  std::printf(
      "{\"role\": \"%s\", \"kernels\": %zu, \"rounds_a_second\": %.2f, \"device_us\": "
      "{\"p50\": %.2f, \"p95\": %.2f, \"p99\": %.2f, \"max\": %.2f}, \"program_us\": "
      "{\"p50\": %.2f, \"p95\": %.2f, \"p99\": %.2f, \"max\": %.2f}}\n",
      role.c_str(), device.size(), static_cast<double>(program.size()) / std::max(spent, 1e-9),
      At(&device, 0.5), At(&device, 0.95), At(&device, 0.99), At(&device, 1), At(&program, 0.5),
      At(&program, 0.95), At(&program, 0.99), At(&program, 1));
}

void PrintPercentiles(const char* name, std::vector<double>* us) {
  std::printf(", \"%s\": {\"p50\": %.2f, \"p95\": %.2f, \"p99\": %.2f, \"max\": %.2f}", name,
              At(us, 0.5), At(us, 0.95), At(us, 0.99), At(us, 1));
}

// On the stream that programs use which name none.
void RunFirst() {
  uint32_t* data = nullptr;
  CHECK(cudaMalloc(&data, 32 * sizeof(uint32_t)));
  CHECK(cudaMemset(data, 0, 32 * sizeof(uint32_t)));
  CHECK(cudaDeviceSynchronize());
  std::vector<double> launch, wait, both, again;
  for (std::vector<double>* const into : {&both, &again}) {
    for (const NumberedKernel kernel : NumberedKernels(std::make_integer_sequence<int, 48>())) {
      const double begin = Now();
      kernel<<<1, 32>>>(data);
      CHECK(cudaGetLastError());
      const double launched = Now();
      CHECK(cudaDeviceSynchronize());
      const double end = Now();
      into->push_back((end - begin) * 1e6);
      if (into != &both) continue;
      launch.push_back((launched - begin) * 1e6);
      wait.push_back((end - launched) * 1e6);
    }
  }
  double spent_us = 0;
  for (const double us : both) spent_us += us;
  std::printf("{\"role\": \"first\", \"kernels\": %zu, \"rounds_a_second\": %.2f", both.size(),
              static_cast<double>(both.size()) / std::max(spent_us * 1e-6, 1e-9));
  PrintPercentiles("program_us", &both);
  PrintPercentiles("launch_us", &launch);
  PrintPercentiles("wait_us", &wait);
  PrintPercentiles("again_us", &again);
  std::printf("}\n");
}

void RunBusy(const std::string& role, double warmup, double seconds) {
  Busy busy;
  CHECK(cudaMalloc(&busy.device, kBytes));
  CHECK(cudaMalloc(&busy.other, kBytes));
  CHECK(cudaMallocHost(&busy.host, kBytes / 4));
  CHECK(cudaMemset(busy.device, 0, kBytes));
  CHECK(cudaStreamCreateWithFlags(&busy.stream, cudaStreamNonBlocking));
  uint64_t rounds = 0;
  const double start = Now();
  double counted_from = start, now = start;
  std::printf("neighbour: busy\n");
  std::fflush(stdout);
  while (now < start + warmup + seconds) {
    for (int i = 0; i < 4; ++i) busy.Round(role);
    CHECK(cudaStreamSynchronize(busy.stream));
    now = Now();
    if (counted_from == start && now > start + warmup) {
      counted_from = now;
      rounds = 0;
    } else {
      rounds += 4;
    }
  }
  std::printf("{\"role\": \"%s\", \"rounds_a_second\": %.2f}\n", role.c_str(),
              static_cast<double>(rounds) / std::max(now - counted_from, 1e-9));
}

const char* Value(int argc, char** argv, const char* name, const char* otherwise) {
  const size_t length = std::strlen(name);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], name, length) == 0) return argv[i] + length;
  }
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = Value(argc, argv, "--role=", "tiny");
  const double seconds = std::atof(Value(argc, argv, "--seconds=", "3"));
  const double warmup = std::atof(Value(argc, argv, "--warmup_s=", "0.5"));
  if (role == "tiny" || role == "request") {
    RunSmall(role, warmup, seconds);
  } else if (role == "first") {
    RunFirst();
  } else {
    RunBusy(role, warmup, seconds);
  }
  return 0;
}
