// Computes, copies and rests in turn for a while, and checks everything it gets against a copy that
// it keeps on the host. When it loses its session it reads its memory back and checks that too.
//
//   long_program [--seconds=N | --held] [--words=N] [--seed=N] [--compute_ms=N] [--rest_ms=N]
//
// --held: see examples/held.h.
// --compute_ms: kernels take up to so much longer, so that something is in flight more often.
// --rest_ms: the longest rest (60), with nothing in flight; there is one after every other round.
// The last line of its output is its verdict:
//   long_program: ok rounds=... longest_ms=...             everything was right; the longest round
//   long_program: LOST error=... at=... intact=... dirty=...
//       a sticky error at that time (seconds since the epoch); what nothing was in flight for was
//       read back intact
//   long_program: FAILED ...                               something was wrong
// Exit status 0, 3 and 1.
#include <cuda_runtime.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../../examples/held.h"
#include "read_back.h"

namespace {

constexpr int kBuffers = 6;
constexpr int kStreams = 3;
// The host writes these before every kernel; they must also be there after a change of worker.
__constant__ uint32_t g_factors[8];

__global__ void Mix(uint32_t* data, uint32_t words, uint32_t add, uint32_t factor) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < words) data[i] = data[i] * g_factors[factor] + (i ^ add);
}

__global__ void Wait(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

struct Options {
  double seconds = 5;
  bool held = false;  // In place of `seconds`.
  uint32_t compute_ms = 0;
  uint32_t rest_ms = 60;
  uint32_t words = 1 << 16;
  uint32_t seed = 1;
};

double Now() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void Rest(long milliseconds) {
  const timespec nap = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  nanosleep(&nap, nullptr);
}

class Program {
 public:
  explicit Program(const Options& options) : options_(options), random_(options.seed) {}

  int Run() {
    if (!Open()) return Lost();
    if (options_.held) SayThatItGoesOn("long_program");
    const double end = Now() + options_.seconds;
    double longest = 0;
    for (double start = Now(); options_.held ? IsHeld() : start < end;) {
      if (!Round()) return wrong_.empty() ? Lost() : Failed();
      ++rounds_;
      const double now = Now();
      longest = std::max(longest, now - start);
      start = now;
    }
    std::printf("long_program: ok rounds=%d longest_ms=%.0f\n", rounds_, 1e3 * longest);
    return 0;
  }

 private:
  size_t bytes() const { return options_.words * sizeof(uint32_t); }
  uint32_t Pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  // Returns false to end the program: after an error, or after a wrong result, when wrong_ says so.
  bool Check(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return true;
    error_ = error;
    what_ = what;
    lost_at_ = Now();
    return false;
  }
  bool Wrong(const std::string& text) {
    wrong_ = text;
    return false;
  }

  bool Open() {
    for (int b = 0; b < kBuffers; ++b) {
      mirror_[b].assign(options_.words, static_cast<uint32_t>(b));
      if (!Check(cudaMalloc(&device_[b], bytes()), "cudaMalloc") ||
          !Check(cudaMemcpy(device_[b], mirror_[b].data(), bytes(), cudaMemcpyHostToDevice),
                 "cudaMemcpy")) {
        return false;
      }
    }
    for (cudaStream_t& stream : streams_) {
      if (!Check(cudaStreamCreate(&stream), "cudaStreamCreate")) return false;
    }
    return Check(cudaEventCreate(&start_), "cudaEventCreate") &&
           Check(cudaEventCreate(&end_), "cudaEventCreate") &&
           Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  bool Round() {
    if (!Check(cudaEventRecord(start_, streams_[0]), "cudaEventRecord")) return false;
    const uint32_t steps = 1 + Pick(8);
    for (uint32_t step = 0; step < steps; ++step) {
      if (!Step()) return false;
    }
    if (!Check(cudaEventRecord(end_, streams_[0]), "cudaEventRecord")) return false;
    if (Pick(4) == 0 && !Compare(Pick(kBuffers))) return false;
    if (!Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize")) return false;
    std::memset(dirty_, 0, sizeof(dirty_));
    if (Pick(2) == 0) Rest(1 + Pick(options_.rest_ms));
    // A change of worker may fall between these two records or behind them.
    float milliseconds = -1;
    if (!Check(cudaEventElapsedTime(&milliseconds, start_, end_), "cudaEventElapsedTime")) {
      return false;
    }
    if (!(milliseconds >= 0 && milliseconds < 60000)) return Wrong("elapsed time");
    return Pick(16) != 0 || Remake();
  }

  // Does one operation; its order against others of the round is that of the legacy stream.
  bool Step() {
    const int b = static_cast<int>(Pick(kBuffers));
    dirty_[b] = true;
    switch (Pick(4)) {
      case 0: {
        const uint32_t first = Pick(options_.words);
        const uint32_t count = 1 + Pick(options_.words - first);
        for (uint32_t i = first; i < first + count; ++i)
          mirror_[b][i] = static_cast<uint32_t>(random_());
        return Check(cudaMemcpy(device_[b] + first, &mirror_[b][first], count * sizeof(uint32_t),
                                cudaMemcpyHostToDevice),
                     "cudaMemcpy to the device");
      }
      case 1: {
        const int from = static_cast<int>(Pick(kBuffers));
        if (from == b) return true;
        mirror_[b] = mirror_[from];
        return Check(cudaMemcpyAsync(device_[b], device_[from], bytes(), cudaMemcpyDeviceToDevice),
                     "cudaMemcpyAsync on the device");
      }
      case 2: {
        const auto value = static_cast<uint32_t>(Pick(256));
        std::memset(mirror_[b].data(), static_cast<int>(value), bytes());
        return Check(cudaMemsetAsync(device_[b], static_cast<int>(value), bytes()),
                     "cudaMemsetAsync");
      }
      default:
        return Compute(b);
    }
  }

  bool Compute(int b) {
    const uint32_t factor = Pick(8);
    if (rounds_ % 8 == 0 || factors_[factor] == 0) {
      for (uint32_t& f : factors_) f = static_cast<uint32_t>(random_()) | 1;
      if (!Check(cudaMemcpyToSymbol(g_factors, factors_, sizeof(factors_)), "cudaMemcpyToSymbol")) {
        return false;
      }
    }
    const auto add = static_cast<uint32_t>(random_());
    for (uint32_t i = 0; i < options_.words; ++i) {
      mirror_[b][i] = mirror_[b][i] * factors_[factor] + (i ^ add);
    }
    // The streams are blocking; a wait for this one orders it against the legacy stream's copies.
    cudaStream_t stream = streams_[Pick(kStreams)];
    if (options_.compute_ms > 0) {
      constexpr long long kCyclesPerMs = 1'800'000;
      Wait<<<1, 1, 0, stream>>>(kCyclesPerMs * (1 + Pick(options_.compute_ms)));
    }
    Mix<<<(options_.words + 255) / 256, 256, 0, stream>>>(device_[b], options_.words, add, factor);
    return Check(cudaGetLastError(), "launch") &&
           Check(cudaStreamSynchronize(Pick(2) == 0 ? stream : nullptr), "cudaStreamSynchronize");
  }

  bool Compare(int b) {
    std::vector<uint32_t> data(options_.words);
    if (!Check(cudaMemcpy(data.data(), device_[b], bytes(), cudaMemcpyDeviceToHost),
               "cudaMemcpy to the host")) {
      return false;
    }
    return data == mirror_[b] ? true : Wrong("contents of buffer " + std::to_string(b));
  }

  // Handles and memory come and go.
  bool Remake() {
    const int s = static_cast<int>(Pick(kStreams));
    const int b = static_cast<int>(Pick(kBuffers));
    dirty_[b] = true;
    return Check(cudaStreamDestroy(streams_[s]), "cudaStreamDestroy") &&
           Check(cudaStreamCreate(&streams_[s]), "cudaStreamCreate") &&
           Check(cudaFree(device_[b]), "cudaFree") &&
           Check(cudaMalloc(&device_[b], bytes()), "cudaMalloc") &&
           Check(cudaMemcpy(device_[b], mirror_[b].data(), bytes(), cudaMemcpyHostToDevice),
                 "cudaMemcpy");
  }

  int Failed() {
    std::printf("long_program: FAILED wrong %s rounds=%d\n", wrong_.c_str(), rounds_);
    return 1;
  }

  int Lost() {
    std::fprintf(stderr, "%s: %s\n", what_, cudaGetErrorName(error_));
    int intact = 0;
    int dirty = 0;
    for (int b = 0; b < kBuffers; ++b) {
      if (device_[b] == nullptr) continue;
      std::vector<uint32_t> data(options_.words);
      const int result = ReadBackMemory(data.data(), device_[b], bytes());
      if (result != 0) {
        std::printf("long_program: FAILED error=%d in %s, readback of buffer %d: %d\n", error_,
                    what_, b, result);
        return 1;
      }
      if (dirty_[b]) {
        ++dirty;
      } else if (data == mirror_[b]) {
        ++intact;
      } else {
        std::printf("long_program: FAILED error=%d, buffer %d was not read back intact\n", error_,
                    b);
        return 1;
      }
    }
    std::printf("long_program: LOST error=%d at=%.6f intact=%d dirty=%d rounds=%d\n", error_,
                lost_at_, intact, dirty, rounds_);
    return 3;
  }

  const Options options_;
  std::mt19937 random_;
  std::vector<uint32_t> mirror_[kBuffers];
  uint32_t* device_[kBuffers] = {};
  bool dirty_[kBuffers] = {};  // Work for it may be in flight since the last synchronize.
  uint32_t factors_[8] = {};
  cudaStream_t streams_[kStreams] = {};
  cudaEvent_t start_ = nullptr;
  cudaEvent_t end_ = nullptr;
  int rounds_ = 0;
  cudaError_t error_ = cudaSuccess;
  const char* what_ = "";
  double lost_at_ = 0;
  std::string wrong_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--seconds=", 10) == 0) options.seconds = std::atof(argv[i] + 10);
    if (IsHeldFlag(argv[i])) options.held = true;
    if (std::strncmp(argv[i], "--words=", 8) == 0) options.words = std::atoi(argv[i] + 8);
    if (std::strncmp(argv[i], "--seed=", 7) == 0) options.seed = std::atoi(argv[i] + 7);
    if (std::strncmp(argv[i], "--rest_ms=", 10) == 0) options.rest_ms = std::atoi(argv[i] + 10);
    if (std::strncmp(argv[i], "--compute_ms=", 13) == 0) {
      options.compute_ms = std::atoi(argv[i] + 13);
    }
  }
  if (options.words < 2) options.words = 2;
  if (options.rest_ms < 1) options.rest_ms = 1;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return Program(options).Run();
}
