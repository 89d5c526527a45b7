// A tenant that keeps the GPU busy with kernels of one length and says how far it got, for
// bench/shares.py.
//
//   shares --calibrate --kernel_us=N [--blocks=N]   Says the rounds of a kernel of that length.
//   shares --rounds=N --kernel_us=N --seconds=N     Launches them for so long.
//          [--blocks=N] [--wait] [--copy_kib=N] [--multiprocessors] [--streams=N] [--batches=N]
//   shares --rounds=N --kernel_us=N --held          Launches them until it is let go
//                                                   (examples/held.h).
//
// A kernel does a fixed amount of arithmetic: one that looked at a clock would be done as soon
// beside others as alone. With --wait each kernel is waited for, without it --batches of a
// millisecond (6) are always queued. With --copy_kib it copies so much to the device instead, over
// and over. With --streams each of so many threads does that with a stream of its own. The output
// has a JSON object in a line for each stream: how much was complete at which time
// (CLOCK_MONOTONIC, seconds), in kernels or copies, and how long one takes alone. With
// --multiprocessors the kernels note where and when they ran, and the object says how many seconds
// of a multiprocessor the complete ones had.
#include <cuda_runtime.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "../../examples/held.h"

namespace {

constexpr int kThreads = 256;

__device__ void Compute(float* data, int rounds) {
  const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = data[i];
  for (int r = 0; r < rounds; ++r) a = fmaf(a, 1.0001f, 0.5f);
  data[i] = a;
}

__global__ void Work(float* data, int rounds) { Compute(data, rounds); }

// What the kernels of one stream note.
struct Held {
  // Of the kernel that runs.
  unsigned long long begin_ns;
  unsigned int blocks_done;
  unsigned int multiprocessors[8];  // Each bit is one.
  // Of all before: nanoseconds, of each multiprocessor that a kernel was on, from its begin to its
  // end.
  unsigned long long kernels;
  unsigned long long held_ns;
  unsigned long long end_ns;  // Of the last one.
};
constexpr unsigned long long kNever = ~0ull;
// Kernels with no longer gap follow each other as closely as they can, and nobody else has what
// they are on in between: it is the time of the later one.
constexpr unsigned long long kGapNs = 20'000;

__device__ unsigned long long DeviceNs() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// The last block adds the kernel to what `held` says, and each `batch` kernels that to `log`.
__global__ void NotedWork(float* data, int rounds, Held* held, unsigned long long* log,
                          unsigned int batch) {
  if (threadIdx.x == 0) {
    unsigned int multiprocessor;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    const unsigned int word = multiprocessor / 32 % 8, bit = 1u << multiprocessor % 32;
    if ((*static_cast<volatile unsigned int*>(&held->multiprocessors[word]) & bit) == 0) {
      atomicOr(&held->multiprocessors[word], bit);
    }
    const unsigned long long now = DeviceNs();
    if (now < *static_cast<volatile unsigned long long*>(&held->begin_ns)) {
      atomicMin(&held->begin_ns, now);
    }
  }
  Compute(data, rounds);
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(&held->blocks_done, 1) != gridDim.x - 1) return;
  __threadfence();
  volatile Held* const seen = held;
  unsigned int count = 0;
  for (int word = 0; word < 8; ++word) {
    count += __popc(seen->multiprocessors[word]);
    seen->multiprocessors[word] = 0;
  }
  const unsigned long long begin = seen->begin_ns, end = DeviceNs(), last = seen->end_ns;
  const bool follows = begin < last + kGapNs;
  seen->held_ns = seen->held_ns + (end - (follows ? last : begin)) * count;
  seen->end_ns = end;
  seen->begin_ns = kNever;
  seen->blocks_done = 0;
  seen->kernels = seen->kernels + 1;
  if (seen->kernels % batch == 0) log[seen->kernels / batch - 1] = seen->held_ns;
}

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "shares: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) Check(call, #call)

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Options {
  bool calibrate = false, wait = false, multiprocessors = false, held = false;
  int rounds = 1000, blocks = 1056, copy_kib = 0, streams = 1, batches = 6;
  double kernel_us = 50, seconds = 5;

  // What a batch takes is long enough not to wait too often.
  int batch() const {
    return wait ? 1 : std::max(1, static_cast<int>(1000 / std::max(kernel_us, 1.0)));
  }
};

// That there is room to note. With --wait a batch is one kernel: of 50 us these are 200 s.
constexpr size_t kMostBatches = size_t{1} << 22;

struct Tenant {
  explicit Tenant(const Options& options) : options(options) {
    const size_t bytes = size_t(std::max(options.blocks, 1)) * kThreads * sizeof(float);
    CHECK(cudaMalloc(&data, bytes));
    CHECK(cudaMemset(data, 0, bytes));
    if (options.copy_kib > 0) {
      copy_bytes = size_t(options.copy_kib) << 10;
      CHECK(cudaMallocHost(&host, copy_bytes));
      CHECK(cudaMalloc(&device, copy_bytes));
    }
    if (options.multiprocessors && copy_bytes == 0) {
      Held none = {};
      none.begin_ns = kNever;
      CHECK(cudaMalloc(&held, sizeof(none)));
      CHECK(cudaMemcpy(held, &none, sizeof(none), cudaMemcpyHostToDevice));
      CHECK(cudaMalloc(&log, kMostBatches * sizeof(*log)));
    }
    CHECK(cudaStreamCreate(&stream));
  }

  void Issue(int rounds) {
    if (copy_bytes > 0) {
      CHECK(cudaMemcpyAsync(device, host, copy_bytes, cudaMemcpyHostToDevice, stream));
    } else if (held != nullptr) {
      NotedWork<<<options.blocks, kThreads, 0, stream>>>(data, rounds, held, log, options.batch());
    } else {
      Work<<<options.blocks, kThreads, 0, stream>>>(data, rounds);
    }
  }

  // How long one takes, of several that follow each other.
  double SecondsOf(int rounds, int count) {
    Issue(rounds);
    CHECK(cudaStreamSynchronize(stream));
    const double start = Now();
    for (int i = 0; i < count; ++i) Issue(rounds);
    CHECK(cudaStreamSynchronize(stream));
    return (Now() - start) / count;
  }

  // Seconds of a multiprocessor that each so many batches had together.
  std::vector<double> HeldSeconds(size_t batches) const {
    std::vector<unsigned long long> read(batches);
    if (batches > 0) {
      CHECK(cudaMemcpy(read.data(), log, batches * sizeof(*log), cudaMemcpyDeviceToHost));
    }
    std::vector<double> seconds;
    for (const unsigned long long ns : read) seconds.push_back(static_cast<double>(ns) * 1e-9);
    return seconds;
  }

  const Options options;
  float* data = nullptr;
  Held* held = nullptr;
  unsigned long long* log = nullptr;
  void *host = nullptr, *device = nullptr;
  size_t copy_bytes = 0;
  cudaStream_t stream = nullptr;
};

int Calibrate(Tenant* tenant) {
  const double want = tenant->options.kernel_us * 1e-6;
  double rounds = 200, took = 0;
  for (int i = 0; i < 8; ++i) {
    const int count = std::max(8, static_cast<int>(0.2 / std::max(want, 1e-5)) / (i < 6 ? 8 : 1));
    took = tenant->SecondsOf(static_cast<int>(rounds), std::min(count, 4000));
    const double factor = want / took;
    if (i == 7) break;
    rounds = std::clamp(rounds * std::clamp(factor, 0.1, 20.0), 1.0, 5e8);
  }
  std::printf("{\"rounds\": %d, \"kernel_us\": %.3f}\n", static_cast<int>(rounds), took * 1e6);
  return 0;
}

// Each of several threads says as one what its stream did.
std::mutex printing;

void Print(const Tenant& tenant, const std::vector<std::pair<double, uint64_t>>& progress,
           uint64_t complete) {
  const Options& options = tenant.options;
  const std::vector<double> held =
      tenant.held == nullptr ? std::vector<double>() : tenant.HeldSeconds(complete);
  const std::lock_guard lock(printing);
  std::printf("{\"kernel_us\": %.3f, \"progress\": [", options.kernel_us);
  for (size_t i = 0; i < progress.size(); ++i) {
    std::printf("%s[%.6f, %llu]", i == 0 ? "" : ", ", progress[i].first,
                static_cast<unsigned long long>(progress[i].second * options.batch()));
  }
  if (tenant.held != nullptr) {
    std::printf("], \"multiprocessor_seconds\": [");
    for (size_t i = 0; i < progress.size(); ++i) {
      const uint64_t batches = progress[i].second;
      std::printf("%s[%.6f, %.6f]", i == 0 ? "" : ", ", progress[i].first,
                  batches == 0 ? 0 : held[batches - 1]);
    }
  }
  std::printf("]}\n");
}

int Run(Tenant* tenant) {
  const Options& options = tenant->options;
  // Some batches are queued.
  const int batch = options.batch();
  const size_t ahead = options.wait ? 1 : static_cast<size_t>(options.batches);
  std::vector<cudaEvent_t> events(ahead);
  for (cudaEvent_t& event : events) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  std::vector<std::pair<double, uint64_t>> progress;
  uint64_t issued = 0, complete = 0;
  const double start = Now();
  progress.push_back({start, 0});
  for (double now = start; options.held ? IsHeld() : now < start + options.seconds;) {
    if (tenant->held != nullptr && issued == kMostBatches) {
      std::fprintf(stderr, "shares: --multiprocessors has no room to note more than %zu batches\n",
                   kMostBatches);
      return 1;
    }
    for (int i = 0; i < batch; ++i) tenant->Issue(options.rounds);
    CHECK(cudaEventRecord(events[issued % ahead], tenant->stream));
    ++issued;
    if (issued - complete < ahead) continue;
    CHECK(cudaEventSynchronize(events[complete % ahead]));
    ++complete;
    if (options.held && complete == 1) SayThatItGoesOn("shares");
    now = Now();
    if (now - progress.back().first >= 0.01) progress.push_back({now, complete});
  }
  CHECK(cudaStreamSynchronize(tenant->stream));
  Print(*tenant, progress, complete);
  return 0;
}

int RunAll(const Options& options) {
  if (options.multiprocessors && options.streams > 1) {
    std::fprintf(stderr,
                 "shares: --multiprocessors is for one stream: kernels of several are on the same "
                 "ones at once\n");
    return 1;
  }
  std::vector<std::unique_ptr<Tenant>> tenants;
  for (int i = 0; i < options.streams; ++i) tenants.push_back(std::make_unique<Tenant>(options));
  std::atomic<int> worst = 0;
  std::vector<std::thread> threads;
  for (const auto& tenant : tenants) {
    threads.emplace_back([&worst, &tenant] {
      if (Run(tenant.get()) != 0) worst = 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const char* const arg = argv[i];
    const char* const equals = std::strchr(arg, '=');
    const double value = equals == nullptr ? 0 : std::atof(equals + 1);
    const auto is = [&](const char* name) {
      return std::strncmp(arg, name, std::strlen(name)) == 0;
    };
    if (is("--calibrate")) options.calibrate = true;
    if (is("--wait")) options.wait = true;
    if (is("--multiprocessors")) options.multiprocessors = true;
    if (is("--held")) options.held = true;
    if (is("--batches=")) options.batches = std::max(static_cast<int>(value), 1);
    if (is("--rounds=")) options.rounds = static_cast<int>(value);
    if (is("--blocks=")) options.blocks = static_cast<int>(value);
    if (is("--copy_kib=")) options.copy_kib = static_cast<int>(value);
    if (is("--streams=")) options.streams = std::max(static_cast<int>(value), 1);
    if (is("--kernel_us=")) options.kernel_us = value;
    if (is("--seconds=")) options.seconds = value;
  }
  if (!options.calibrate) return RunAll(options);
  Tenant tenant(options);
  return Calibrate(&tenant);
}
