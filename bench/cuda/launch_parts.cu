// What a launch in a long row costs, by the way in which it is made: which handle, which stream,
// how often an event is recorded behind it and asked for, and who else is busy meanwhile.
//
//   launch_parts [--row=20000] [--rounds=5] [--busy=4]
//
// A server's worker launches otherwise than a program does, and this says what each difference is
// worth, without a server. The ways take turns. Prints one JSON object a line, as warpline_bench
// does: the median microseconds of a launch, with the wait at the end of the row in it.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../examples/check.h"
#include "timing.h"

namespace {

__global__ void Empty() {}

constexpr char kModule[] = R"(.version 8.0
.target sm_75
.address_size 64
.visible .entry empty()
{
  ret;
}
.visible .entry count(.param .u64 p)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r1, [%rd2];
  add.u32 %r2, %r1, 1;
  st.global.u32 [%rd2], %r2;
  ret;
}
)";

// The driver's functions, found in the library that the runtime uses as well.
struct Driver {
  template <typename Function>
  static Function* Find(const char* name) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    void* const found = library == nullptr ? nullptr : dlsym(library, name);
    if (found == nullptr) examples::Fail("the driver has no %s", name);
    return reinterpret_cast<Function*>(found);
  }
#define FIND(name) decltype(::name)* name = Find<decltype(::name)>(#name)
  FIND(cuLibraryLoadData);
  FIND(cuLibraryGetKernel);
  FIND(cuKernelGetFunction);
  FIND(cuLaunchKernel);
  FIND(cuEventCreate);
  FIND(cuEventRecord);
  FIND(cuEventQuery);
  FIND(cuStreamCreate);
  FIND(cuStreamSynchronize);
#undef FIND
};

void Check(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) examples::Fail("%s: %d", what, static_cast<int>(result));
}
#define CHECK(call) Check(call, #call)

// Threads that look at memory with short pauses between, as loops do that wait for each other.
class BusyThreads {
 public:
  explicit BusyThreads(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        while (!stop_.load(std::memory_order_relaxed)) {
          for (int pause = 0; pause < 4; ++pause) asm volatile("pause");
        }
      });
    }
  }
  ~BusyThreads() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

struct Way {
  CUfunction function;
  CUstream stream = nullptr;
  bool has_parameter = false;
  int mark_every = 0;   // An event behind every so many launches; 0 for none.
  int query_every = 0;  // The oldest event that is not complete is asked for; 0 for with the mark.
  int most_outstanding = 0;  // Launches that no complete event is behind; 0 for any number.
};

class Rows {
 public:
  explicit Rows(int row) : row_(row) {
    CUDA_CHECK(cudaMalloc(&counter_, sizeof(unsigned)));
    CUDA_CHECK(cudaMemset(counter_, 0, sizeof(unsigned)));
    CUDA_CHECK(cudaDeviceSynchronize());
    for (CUevent& event : events_) CHECK(driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  }

  const Driver& driver() const { return driver_; }

  void Run(const Way& way) {
    auto address = reinterpret_cast<CUdeviceptr>(counter_);
    size_t bytes = sizeof(address);
    // Launches as a worker does, which passes on what came over the wire.
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &address, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    void** const packed = way.has_parameter ? extra : nullptr;
    std::deque<std::pair<size_t, int>> marks;  // The event, and the launch that it is behind.
    size_t next = 0;
    int complete = 0;
    const auto query = [&] {
      while (!marks.empty() && driver_.cuEventQuery(events_[marks.front().first]) == CUDA_SUCCESS) {
        complete = marks.front().second;
        marks.pop_front();
      }
    };
    for (int i = 1; i <= row_; ++i) {
      CHECK(driver_.cuLaunchKernel(way.function, 1, 1, 1, 1, 1, 1, 0, way.stream, nullptr, packed));
      if (way.mark_every == 0) continue;
      if (i % way.mark_every == 0) {
        CHECK(driver_.cuEventRecord(events_[next], way.stream));
        marks.emplace_back(next, i);
        next = (next + 1) % kEvents;
        if (way.query_every == 0) query();
      }
      if (way.query_every > 0 && i % way.query_every == 0) query();
      while (way.most_outstanding > 0 && i - complete >= way.most_outstanding) query();
    }
    CHECK(driver_.cuStreamSynchronize(way.stream));
  }

 private:
  static constexpr size_t kEvents = 4096;

  const Driver driver_;
  const int row_;
  unsigned* counter_ = nullptr;
  CUevent events_[kEvents];
};

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "launch_parts", "what a launch costs, by how it is made");
  const int row = static_cast<int>(options.Number("row", 20000, "launches in a row"));
  const int rounds =
      static_cast<int>(options.Number("rounds", 5, "how often each way has its turn"));
  const int busy = static_cast<int>(options.Number("busy", 4, "threads that are busy meanwhile"));
  options.Finish();

  CUDA_CHECK(cudaFree(nullptr));
  Rows rows(row);
  const Driver& driver = rows.driver();
  CUlibrary library;
  CHECK(driver.cuLibraryLoadData(&library, kModule, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel kernels[2];
  CUfunction functions[2];
  const char* const names[2] = {"empty", "count"};
  for (int i = 0; i < 2; ++i) {
    CHECK(driver.cuLibraryGetKernel(&kernels[i], library, names[i]));
    CHECK(driver.cuKernelGetFunction(&functions[i], kernels[i]));
  }
  const auto by_kernel = reinterpret_cast<CUfunction>(kernels[0]);
  CUstream stream;
  CHECK(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const CUstream legacy = CU_STREAM_LEGACY;

  struct Case {
    std::string name;
    std::function<void()> run;
  };
  const auto way = [&rows](const char* name, const Way& with) {
    return Case{name, [&rows, with] { rows.Run(with); }};
  };
  const auto beside = [&](const char* name, const Way& with) {
    return Case{name, [&rows, with, busy] {
                  const BusyThreads threads(busy);
                  rows.Run(with);
                }};
  };
  const auto on_thread = [&](const char* name, const Way& with) {
    return Case{name, [&rows, with] {
                  std::thread([&] {
                    CUDA_CHECK(cudaFree(nullptr));  // Makes the context current here.
                    rows.Run(with);
                  }).join();
                }};
  };
  const Way worker = {by_kernel, legacy, false, 64, 0, 512};
  Way worker_function = worker;
  worker_function.function = functions[0];
  const std::vector<Case> cases = {
      {"runtime",
       [row] {
         for (int i = 0; i < row; ++i) Empty<<<1, 1>>>();
         CUDA_CHECK_LAUNCH();
         CUDA_CHECK(cudaDeviceSynchronize());
       }},
      way("function", {functions[0], legacy}),
      way("kernel_handle", {by_kernel, legacy}),
      way("function_own_stream", {functions[0], stream}),
      way("kernel_handle_own_stream", {by_kernel, stream}),
      way("counting_own_stream", {functions[1], stream, true}),
      way("function_marks_64", {functions[0], legacy, false, 64}),
      way("function_marks_256", {functions[0], legacy, false, 256}),
      way("function_own_stream_marks_64", {functions[0], stream, false, 64}),
      way("function_marks_64_queries_8", {functions[0], legacy, false, 64, 8}),
      way("as_worker", worker),
      way("as_worker_by_function", worker_function),
      on_thread("as_worker_on_thread", worker),
      beside("as_worker_beside_busy", worker),
      beside("function_beside_busy", {functions[0], legacy}),
  };
  std::vector<std::vector<double>> times(cases.size());
  for (int round = -1; round < rounds; ++round) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const double start = bench::NowUs();
      cases[i].run();
      if (round >= 0) times[i].push_back((bench::NowUs() - start) / row);
    }
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    std::sort(times[i].begin(), times[i].end());
    bench::Print(cases[i].name.c_str(), times[i][times[i].size() / 2], "us");
  }
  return 0;
}
