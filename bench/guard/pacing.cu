// Measures what the pace word does to kernels on a GPU: how fast a memory-bound kernel goes at each
// nap, what a small request beside it gains, how soon a change is felt, and what asking costs a
// kernel at full pace.
//
//   nvcc -ptx -arch=sm_90 -O3 paced_kernels.cu -o kernels.ptx
//   guard_main --arena_bits=36 --hardened --out=now kernels.ptx
//   nvcc -O2 -std=c++17 pacing.cu -lcuda -o pacing
//   pacing GUARDED.ptx [OTHER.ptx ...]
//
// The others, guarded in another way or not at all, are timed beside it.
// The request has 16 multiprocessors of its own, and the memory-bound kernel the others.
#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "pacing: %s: %s\n", what, name == nullptr ? "?" : name);
  std::exit(1);
}
#define CHECK(call) Check(call, #call)

using Clock = std::chrono::steady_clock;
double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr uint64_t kArenaBytes = uint64_t{1} << 36;
constexpr uint64_t kBytes = uint64_t{1} << 30;  // Of each buffer
constexpr uint64_t kCount = kBytes / 16;
constexpr uint32_t kThreads = 256, kStop = 0x80000000;
constexpr uint32_t kRounds = 16;          // Of the grid that stays, some 12 ms
constexpr uint32_t kWeights = 32u << 20;  // Bytes that a request reads

CUdeviceptr memory, pace;
CUstream words;
uint64_t to, from, out, counter;

void SetPace(uint32_t word) {
  CHECK(cuMemcpyHtoDAsync(pace, &word, sizeof(word), words));
  CHECK(cuStreamSynchronize(words));
}

std::string Read(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

CUmodule Load(const char* path) {
  CUmodule module;
  CHECK(cuModuleLoadData(&module, Read(path).c_str()));
  CUdeviceptr constants;
  size_t bytes;
  if (cuModuleGetGlobal(&constants, &bytes, module, "wlg_const") != CUDA_SUCCESS) return module;
  uint64_t places[8] = {};
  const uint32_t high[2] = {static_cast<uint32_t>(memory / kArenaBytes * kArenaBytes >> 32),
                            static_cast<uint32_t>(memory / kArenaBytes * kArenaBytes >> 32)};
  std::memcpy(places, high, sizeof(high));
  places[3] = out + (1 << 20);
  places[5] = pace;
  CHECK(cuMemcpyHtoD(constants, places, sizeof(places)));
  return module;
}

CUfunction Find(CUmodule module, const char* name) {
  CUfunction function;
  CHECK(cuModuleGetFunction(&function, module, name));
  return function;
}

// The layout is that of guard::LaunchWords. Kernels that are not guarded have no such parameter.
struct LaunchWords {
  uint32_t arena_high[2], blocks, shape, zero_stride, reserved;
};

template <typename... Arguments>
void Launch(CUfunction function, uint32_t blocks, CUstream stream, Arguments... arguments) {
  const auto high = static_cast<uint32_t>(memory / kArenaBytes * kArenaBytes >> 32);
  // All blocks ask, which they do while a session has a pace.
  LaunchWords words = {{high, high}, INT32_MAX, INT32_MAX, 16 * kThreads, 0};
  void* pointers[] = {&arguments..., &words};
  CHECK(cuLaunchKernel(function, blocks, 1, 1, kThreads, 1, 1, 0, stream, pointers, nullptr));
}

// The median time of a launch alone, in microseconds.
double TimeOf(const std::function<void(CUstream)>& launch, CUstream stream) {
  CUevent before, after;
  CHECK(cuEventCreate(&before, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&after, CU_EVENT_DEFAULT));
  std::vector<float> times;
  for (int i = 0; i < 23; ++i) {
    CHECK(cuEventRecord(before, stream));
    launch(stream);
    CHECK(cuEventRecord(after, stream));
    CHECK(cuEventSynchronize(after));
    float ms;
    CHECK(cuEventElapsedTime(&ms, before, after));
    if (i >= 3) times.push_back(ms * 1000);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct Kernel {
  const char* name;
  std::function<void(CUfunction, CUstream)> launch;
};

const std::vector<Kernel>& Kernels() {
  static const std::vector<Kernel> kernels = {
      {"stream_loop",
       [](CUfunction f, CUstream s) { Launch(f, 1056, s, to, from, kCount, uint32_t{1}); }},
      {"stream_wide",
       [](CUfunction f, CUstream s) {
         Launch(f, kCount / kThreads, s, to, from, kCount, uint32_t{1});
       }},
      {"stream_loop 64 rounds",
       [](CUfunction f, CUstream s) { Launch(f, 1056, s, to, from, kCount / 16, uint32_t{64}); }},
      {"stream_wide 16k blocks",
       [](CUfunction f, CUstream s) {
         Launch(f, 16384, s, to, from, uint64_t{16384} * kThreads, uint32_t{1});
       }},
      {"stream_wide 512 blocks",
       [](CUfunction f, CUstream s) {
         Launch(f, 512, s, to, from, uint64_t{512} * kThreads, uint32_t{1});
       }},
      {"divergent", [](CUfunction f, CUstream s) { Launch(f, 1056, s, out, uint32_t{40000}); }},
      {"barriers", [](CUfunction f, CUstream s) { Launch(f, 1056, s, out, uint32_t{20000}); }},
      {"request",
       [](CUfunction f, CUstream s) { Launch(f, 128, s, out, from, uint32_t{kWeights / 16}); }},
  };
  return kernels;
}

std::string Base(const std::string& name) { return name.substr(0, name.find(' ')); }

void Overhead(const std::vector<CUmodule>& modules, CUstream stream) {
  std::printf("kernels alone, us, of each module\n");
  for (const Kernel& kernel : Kernels()) {
    std::printf("  %-24s", kernel.name);
    std::vector<double> best(modules.size(), 1e30);
    for (int round = 0; round < 5; ++round) {
      for (size_t m = 0; m < modules.size(); ++m) {
        const CUfunction function = Find(modules[m], Base(kernel.name).c_str());
        best[m] =
            std::min(best[m], TimeOf([&](CUstream s) { kernel.launch(function, s); }, stream));
      }
    }
    for (const double us : best) std::printf(" %10.2f", us);
    std::printf("\n");
  }
}

std::vector<uint32_t> Fetch(uint64_t address, size_t count) {
  std::vector<uint32_t> values(count);
  CHECK(cuMemcpyDtoH(values.data(), address, count * 4));
  return values;
}

// Paced kernels go on with the same results, and a stop ends them within a nap.
void Correct(CUmodule module, CUstream stream) {
  const size_t count = 1056 * kThreads;
  for (const char* const name : {"barriers", "divergent"}) {
    const CUfunction function = Find(module, name);
    const uint32_t rounds = name[0] == 'b' ? 60000 : 400000;
    SetPace(0);
    Launch(function, 1056, stream, out, rounds);
    CHECK(cuStreamSynchronize(stream));
    const auto expected = Fetch(out, count);
    CHECK(cuMemsetD8(out, 0, count * 4));
    const auto start = Clock::now();
    Launch(function, 1056, stream, out, rounds);
    SetPace(1000000);
    usleep(100000);
    const bool waits = cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
    SetPace(0);
    CHECK(cuStreamSynchronize(stream));
    std::printf("%s: paused for 100 ms %s, took %.1f ms, results %s\n", name,
                waits ? "and still there" : "and was over", SecondsSince(start) * 1000,
                Fetch(out, count) == expected ? "right" : "WRONG");
  }
  const CUfunction meet = Find(module, "grid_barriers");
  CHECK(cuMemsetD32(counter, 0, 1));
  SetPace(100000);
  auto start = Clock::now();
  Launch(meet, 132, stream, counter, out, uint32_t{200});
  CHECK(cuStreamSynchronize(stream));
  std::printf("grid barriers by hand, 200 rounds at naps of 100 us: %.1f ms, results %s\n",
              SecondsSince(start) * 1000, Fetch(counter, 1)[0] == 132 * 200 ? "right" : "WRONG");
  const CUfunction loop = Find(module, "stream_loop");
  SetPace(0);
  Launch(loop, 1056, stream, to, from, kCount, uint32_t{100000});
  usleep(20000);
  SetPace(1000000);
  usleep(50000);
  start = Clock::now();
  SetPace(kStop);
  CHECK(cuStreamSynchronize(stream));
  std::printf("a stop during naps of 1 ms: ended after %.2f ms\n", SecondsSince(start) * 1000);
  SetPace(0);
}

struct Requests {
  double device_p50, device_p99, host_p50, host_p99;
};

double At(std::vector<double>* values, double part) {
  std::sort(values->begin(), values->end());
  return (*values)[static_cast<size_t>(part * static_cast<double>(values->size() - 1))];
}

// A request every 500 us for a while.
Requests Ask(CUfunction request, CUstream stream, double seconds) {
  CUevent before, after;
  CHECK(cuEventCreate(&before, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&after, CU_EVENT_DEFAULT));
  std::vector<double> device, host;
  const auto begin = Clock::now();
  while (SecondsSince(begin) < seconds) {
    const auto start = Clock::now();
    CHECK(cuEventRecord(before, stream));
    Launch(request, 128, stream, out, from, uint32_t{kWeights / 16});
    CHECK(cuEventRecord(after, stream));
    CHECK(cuEventSynchronize(after));
    host.push_back(SecondsSince(start) * 1e6);
    float ms;
    CHECK(cuEventElapsedTime(&ms, before, after));
    device.push_back(ms * 1000);
    usleep(500);
  }
  return {At(&device, 0.5), At(&device, 0.99), At(&host, 0.5), At(&host, 0.99)};
}

void Beside(CUmodule module, CUcontext context, CUstream urgent, CUstream effort) {
  const CUfunction request = Find(module, "request");
  SetPace(0);
  const Requests alone = Ask(request, urgent, 1);
  std::printf("request alone: device p50 %.1f p99 %.1f, program p50 %.1f p99 %.1f us\n",
              alone.device_p50, alone.device_p99, alone.host_p50, alone.host_p99);
  for (const char* const name : {"stream_loop", "stream_wide"}) {
    const CUfunction function = Find(module, name);
    const bool wide = std::strcmp(name, "stream_wide") == 0;
    for (const uint32_t nap : {0u, 10000u, 50000u, 200000u, 1000000u}) {
      // The request goes by the same word, but is too small to ask.
      SetPace(nap);
      std::atomic<bool> stop{false};
      std::atomic<uint64_t> bytes{0};
      double seconds = 0;
      std::thread busy([&] {
        CHECK(cuCtxSetCurrent(context));
        CUevent events[4];
        for (CUevent& event : events) CHECK(cuEventCreate(&event, CU_EVENT_BLOCKING_SYNC));
        const auto start = Clock::now();
        for (uint64_t i = 0; !stop.load(); ++i) {
          if (i >= 4) {
            CHECK(cuEventSynchronize(events[i % 4]));
            bytes += 2 * kBytes * (wide ? 1 : kRounds);
          }
          Launch(function, wide ? kCount / kThreads : 1056, effort, to, from, kCount,
                 wide ? 1 : kRounds);
          CHECK(cuEventRecord(events[i % 4], effort));
        }
        seconds = SecondsSince(start);
      });
      usleep(200000);
      const Requests beside = Ask(request, urgent, 2);
      stop = true;
      SetPace(0);
      busy.join();
      CHECK(cuStreamSynchronize(effort));
      std::printf(
          "%s, naps of %4u us: request device p50 %.1f p99 %.1f, program p50 %.1f p99 %.1f us; "
          "%.0f GB/s\n",
          name, nap / 1000, beside.device_p50, beside.device_p99, beside.host_p50, beside.host_p99,
          static_cast<double>(bytes.load()) / seconds / 1e9);
    }
  }
}

// How long until a kernel goes slowly, and fast again, seen by how far it comes in each moment.
void Latency(CUmodule module, CUstream stream, const char* name) {
  const CUfunction function = Find(module, name);
  const bool wide = std::strcmp(name, "stream_wide") == 0;
  std::vector<double> times;
  std::printf("%s: time of launches (ms) with naps of 200 us from the 5th to the 8th:", name);
  for (int i = 0; i < 12; ++i) {
    if (i == 4) SetPace(200000);
    if (i == 8) SetPace(0);
    const auto start = Clock::now();
    Launch(function, wide ? kCount / kThreads : 1056, stream, to, from, kCount, wide ? 1 : kRounds);
    CHECK(cuStreamSynchronize(stream));
    std::printf(" %.2f", SecondsSince(start) * 1000);
  }
  std::vector<double> writes;
  for (int i = 0; i < 200; ++i) {
    const auto start = Clock::now();
    SetPace(0);
    writes.push_back(SecondsSince(start) * 1e6);
  }
  std::printf("\nwriting the word: p50 %.1f p99 %.1f us\n", At(&writes, 0.5), At(&writes, 0.99));
}

constexpr char kNaps[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry naps(.param .u64 p)
{
  .reg .b64 %rd<6>; .reg .b32 %r<6>; .reg .pred %p<3>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  setp.eq.u32 %p1, %r1, 0;
  selp.b32 %r2, 1000000, 0, %p1;
  mov.u64 %rd2, %globaltimer;
  nanosleep.u32 %r2;
  mov.u64 %rd3, %globaltimer;
  sub.u64 %rd3, %rd3, %rd2;
  mul.wide.u32 %rd4, %r1, 8;
  add.u64 %rd4, %rd1, %rd4;
  st.global.u64 [%rd4], %rd3;
  ret;
})";

// A nap of the first lane alone.
void Naps(CUstream stream) {
  CUmodule module;
  CHECK(cuModuleLoadData(&module, kNaps));
  uint64_t at = out;
  void* arguments[] = {&at};
  CHECK(cuLaunchKernel(Find(module, "naps"), 1, 1, 1, 64, 1, 1, 0, stream, arguments, nullptr));
  CHECK(cuStreamSynchronize(stream));
  uint64_t ns[64];
  CHECK(cuMemcpyDtoH(ns, out, sizeof(ns)));
  std::printf(
      "naps of 1 ms of the first lane alone: it %.1f us, the second %.1f, lane 31 %.1f, the "
      "next warp %.1f\n",
      ns[0] / 1e3, ns[1] / 1e3, ns[31] / 1e3, ns[32] / 1e3);
}

// A stream on so many multiprocessors, and one on the others.
void Divide(CUdevice device, unsigned first, CUstream* small, CUstream* large) {
  CUdevResource all, part, rest;
  CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
  unsigned groups = 1;
  CHECK(cuDevSmResourceSplitByCount(&part, &groups, &all, &rest, 0, first));
  std::printf("multiprocessors: %u and %u\n", part.sm.smCount, rest.sm.smCount);
  for (const auto& [resource, stream] : {std::pair(&part, small), std::pair(&rest, large)}) {
    CUdevResourceDesc description;
    CUgreenCtx green;
    CHECK(cuDevResourceGenerateDesc(&description, resource, 1));
    CHECK(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK(cuGreenCtxStreamCreate(stream, green, CU_STREAM_NON_BLOCKING, 0));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  CHECK(cuInit(0));
  CUdevice device;
  CUcontext context;
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  char name[100];
  CHECK(cuDeviceGetName(name, sizeof(name), device));
  std::printf("%s\n", name);
  // All in one window of the arena's size: what does not fit is tried elsewhere.
  const uint64_t all = 2 * kBytes + (64 << 20);
  CHECK(cuMemAlloc(&memory, all));
  if (memory / kArenaBytes != (memory + all) / kArenaBytes) CHECK(cuMemAlloc(&memory, all));
  CHECK(cuMemAlloc(&pace, 4096));
  CHECK(cuMemsetD8(memory, 0, all));
  CHECK(cuMemsetD8(pace, 0, 4096));
  CHECK(cuStreamCreate(&words, CU_STREAM_NON_BLOCKING));
  to = memory;
  from = memory + kBytes;
  out = memory + 2 * kBytes;
  counter = out + (32 << 20);
  CUstream whole, urgent, effort;
  CHECK(cuStreamCreate(&whole, CU_STREAM_NON_BLOCKING));
  std::vector<CUmodule> modules;
  for (int i = 1; i < argc; ++i) modules.push_back(Load(argv[i]));
  Naps(whole);
  Overhead(modules, whole);
  Correct(modules[0], whole);
  Latency(modules[0], whole, "stream_loop");
  Latency(modules[0], whole, "stream_wide");
  Divide(device, 16, &urgent, &effort);
  Beside(modules[0], context, urgent, effort);
  return 0;
}
