// Times the CUDA calls that programs make most. It is an ordinary program of the runtime API: run
// unchanged with the native driver and with Warpline's, it gives figures to compare (see
// compare.py).
//
// Prints one JSON object a line: {"name": ..., "value": ..., "unit": ...}, with the unit "ms", "us"
// or "GB/s" (10^9 bytes). Results are checked outside the timed parts; a wrong one ends the program
// with exit status 1.
#include <iterator>
#include <utility>
#include <vector>

#include "../../examples/check.h"
#include "timing.h"

namespace {

using bench::MedianUs;
using bench::NowUs;
using bench::Print;

__global__ void CountLaunch(unsigned* launches) { *launches += 1; }
__global__ void Empty() {}
// Kernels that nothing else launches.
template <int kNumber>
__global__ void Numbered(unsigned* numbers) {
  numbers[kNumber] = kNumber + 1;
}
constexpr int kNumbered = 24;

// Launches each of some kernels for the first time, and waits for each, as a small program does
// that runs through its parts once.
template <int... kNumbers>
void MeasureFirstLaunches(std::integer_sequence<int, kNumbers...>) {
  using Kernel = void (*)(unsigned*);
  const Kernel kernels[] = {Numbered<kNumbers>...};
  unsigned* numbers = nullptr;
  CUDA_CHECK(cudaMalloc(&numbers, sizeof(kernels)));
  CUDA_CHECK(cudaMemset(numbers, 0, sizeof(kernels)));
  CUDA_CHECK(cudaDeviceSynchronize());
  for (const char* name : {"first_launch_sync", "second_launch_sync"}) {
    int next = 0;
    const double us = MedianUs(0, static_cast<int>(std::size(kernels)), [&] {
      kernels[next++]<<<1, 1>>>(numbers);
      CUDA_CHECK_LAUNCH();
      CUDA_CHECK(cudaDeviceSynchronize());
    });
    Print(name, us, "us");
  }
  unsigned results[std::size(kernels)] = {};
  CUDA_CHECK(cudaMemcpy(results, numbers, sizeof(results), cudaMemcpyDeviceToHost));
  for (unsigned i = 0; i < std::size(kernels); ++i) {
    if (results[i] != i + 1) examples::Fail("kernel %u has not run", i);
  }
  CUDA_CHECK(cudaFree(numbers));
}

// Rows of launches of a kernel that does nothing, on the stream that programs use which name none.
// The first one is what a program sees that makes one.
void MeasureLaunchRow(int scale) {
  constexpr int kRow = 20000;
  Empty<<<1, 1>>>();
  CUDA_CHECK(cudaDeviceSynchronize());
  const auto row = [] {
    for (int i = 0; i < kRow; ++i) Empty<<<1, 1>>>();
    CUDA_CHECK_LAUNCH();
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  const double start = NowUs();
  row();
  Print("launch_first_row", (NowUs() - start) / kRow, "us");
  Print("launch_row", MedianUs(0, scale / 2 + 1, row) / kRow, "us");
}

// Rows of copies of 64 KiB from pageable memory. The first one is what a program sees that makes
// one. A single copy that is measured alone may be faster than one of many: what it leaves to be
// done later is done by then.
void MeasureCopyRow(int scale) {
  constexpr int kRow = 50;
  constexpr size_t kBytes = size_t{64} << 10;
  char* device = nullptr;
  CUDA_CHECK(cudaMalloc(&device, kBytes));
  std::vector<char> host(kBytes, 'x');
  CUDA_CHECK(cudaDeviceSynchronize());
  const auto row = [&] {
    for (int i = 0; i < kRow; ++i) {
      host[0] = static_cast<char>(i);
      CUDA_CHECK(cudaMemcpy(device, host.data(), kBytes, cudaMemcpyHostToDevice));
    }
  };
  const double start = NowUs();
  row();
  Print("h2d_pageable_64KiB_first_row", (NowUs() - start) / kRow, "us");
  const auto synchronize = [] { CUDA_CHECK(cudaDeviceSynchronize()); };
  synchronize();
  Print("h2d_pageable_64KiB_row", MedianUs(2, 2 * scale, row, synchronize) / kRow, "us");
  const auto row_and_wait = [&] {
    row();
    synchronize();
  };
  Print("h2d_pageable_64KiB_row_sync", MedianUs(2, 2 * scale, row_and_wait) / kRow, "us");
  std::vector<char> back(kBytes);
  CUDA_CHECK(cudaMemcpy(back.data(), device, kBytes, cudaMemcpyDeviceToHost));
  if (back != host) examples::Fail("the last copy of a row came back wrong");
  CUDA_CHECK(cudaFree(device));
}

class Launches {
 public:
  explicit Launches(int scale) : scale_(scale) {
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CUDA_CHECK(cudaMalloc(&device_, sizeof(unsigned)));
    CUDA_CHECK(cudaMemset(device_, 0, sizeof(unsigned)));
    CUDA_CHECK(cudaDeviceSynchronize());
    Launch(100);
    Synchronize();
  }

  // Measures only the time that the program's thread spends on issuing; the device is idle at the
  // start of each burst.
  void MeasureIssue() {
    constexpr int kBurst = 800;
    const double us = MedianUs(
        3, 2 * scale_ + 1, [this] { Launch(kBurst); }, [this] { Synchronize(); });
    Synchronize();
    Print("launch_issue", us / kBurst, "us");
  }

  void MeasureThroughput() {
    constexpr int kBurst = 20000;
    const double us = MedianUs(1, scale_ / 2 + 1, [this] {
      Launch(kBurst);
      Synchronize();
    });
    Print("launch_throughput", us / kBurst, "us");
  }

  void MeasureLaunchAndSynchronize() {
    const double us = MedianUs(50, 100 * scale_, [this] {
      Launch(1);
      Synchronize();
    });
    Print("launch_sync", us, "us");
  }

  void MeasureEvent() {
    cudaEvent_t event;
    CUDA_CHECK(cudaEventCreate(&event));
    const double us = MedianUs(50, 100 * scale_, [this, event] {
      CUDA_CHECK(cudaEventRecord(event, stream_));
      CUDA_CHECK(cudaEventSynchronize(event));
    });
    CUDA_CHECK(cudaEventDestroy(event));
    Print("event_record_sync", us, "us");
  }

  // Every launch must have run: a driver that drops launches would look fast.
  void Check() {
    unsigned ran = 0;
    CUDA_CHECK(cudaMemcpy(&ran, device_, sizeof(ran), cudaMemcpyDeviceToHost));
    if (ran != issued_) examples::Fail("%u launches ran, %u were issued", ran, issued_);
    CUDA_CHECK(cudaFree(device_));
    CUDA_CHECK(cudaStreamDestroy(stream_));
  }

 private:
  void Launch(int count) {
    for (int i = 0; i < count; ++i) CountLaunch<<<1, 1, 0, stream_>>>(device_);
    CUDA_CHECK_LAUNCH();
    issued_ += count;
  }
  void Synchronize() { CUDA_CHECK(cudaStreamSynchronize(stream_)); }

  const int scale_;
  cudaStream_t stream_ = nullptr;
  unsigned* device_ = nullptr;
  unsigned issued_ = 0;
};

void MeasureAllocation(int scale) {
  constexpr size_t kBytes = size_t{2} << 20;
  void* memory = nullptr;
  double us = MedianUs(20, 20 * scale, [&] {
    CUDA_CHECK(cudaMalloc(&memory, kBytes));
    CUDA_CHECK(cudaFree(memory));
  });
  Print("malloc_free", us, "us");

  // Measures a batch with its synchronize, so that work put off until later is in the figure.
  constexpr int kPairs = 1000;
  us = MedianUs(2, scale, [&] {
    for (int i = 0; i < kPairs; ++i) {
      CUDA_CHECK(cudaMallocAsync(&memory, kBytes, nullptr));
      CUDA_CHECK(cudaFreeAsync(memory, nullptr));
    }
    CUDA_CHECK(cudaStreamSynchronize(nullptr));
  });
  Print("malloc_async_free_async", us / kPairs, "us");
}

void MeasureSmallCopies(int scale) {
  unsigned* device = nullptr;
  unsigned host = 0x600df00d;
  CUDA_CHECK(cudaMalloc(&device, sizeof(host)));
  Print("h2d_4B",
        MedianUs(
            50, 100 * scale,
            [&] { CUDA_CHECK(cudaMemcpy(device, &host, sizeof(host), cudaMemcpyHostToDevice)); }),
        "us");
  host = 0;
  Print("d2h_4B",
        MedianUs(
            50, 100 * scale,
            [&] { CUDA_CHECK(cudaMemcpy(&host, device, sizeof(host), cudaMemcpyDeviceToHost)); }),
        "us");
  if (host != 0x600df00d) examples::Fail("a copy of 4 bytes gave %#x", host);
  CUDA_CHECK(cudaFree(device));
}

// Copies `bytes` in and out through `host`, which the caller owns, and prints both rates.
void MeasureCopies(const char* kind, const char* size_name, char* host, char* device, size_t bytes,
                   int repeats) {
  auto pattern = [](size_t i) { return static_cast<char>(i * 131 + (i >> 12)); };
  for (size_t i = 0; i < bytes; ++i) host[i] = pattern(i);
  char name[64];
  double us = MedianUs(
      2, repeats, [&] { CUDA_CHECK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice)); });
  std::snprintf(name, sizeof(name), "h2d_%s_%s", kind, size_name);
  Print(name, bytes / us * 1e-3, "GB/s");

  std::memset(host, 0, bytes);
  us = MedianUs(2, repeats,
                [&] { CUDA_CHECK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost)); });
  std::snprintf(name, sizeof(name), "d2h_%s_%s", kind, size_name);
  Print(name, bytes / us * 1e-3, "GB/s");
  for (size_t i = 0; i < bytes; ++i) {
    if (host[i] != pattern(i)) examples::Fail("%s: byte %zu came back wrong", name, i);
  }
}

void MeasureLargeCopies(int scale, size_t most_bytes) {
  const struct {
    const char* name;
    size_t bytes;
    int repeats;
  } kSizes[] = {{"64KiB", size_t{64} << 10, 20 * scale},
                {"1MiB", size_t{1} << 20, 10 * scale},
                {"16MiB", size_t{16} << 20, 2 * scale},
                {"256MiB", size_t{256} << 20, scale / 2}};
  for (const auto& size : kSizes) {
    if (size.bytes > most_bytes) continue;
    char *device = nullptr, *pinned = nullptr;
    CUDA_CHECK(cudaMalloc(&device, size.bytes));
    char* pageable = static_cast<char*>(std::malloc(size.bytes));
    if (pageable == nullptr) examples::Fail("no host memory for %zu bytes", size.bytes);
    MeasureCopies("pageable", size.name, pageable, device, size.bytes, size.repeats);
    std::free(pageable);
    CUDA_CHECK(cudaMallocHost(&pinned, size.bytes));
    MeasureCopies("pinned", size.name, pinned, device, size.bytes, size.repeats);
    CUDA_CHECK(cudaFreeHost(pinned));
    CUDA_CHECK(cudaFree(device));
  }
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "warpline_bench",
                            "times the CUDA calls programs make most");
  const int scale = static_cast<int>(
      options.Number("scale", 10, "repeats: 10 for figures to report, 1 for a quick look"));
  const size_t most_mib = options.Number("max_mib", 256, "largest copy in MiB");
  const bool rows_only =
      options.Number("rows_only", 0, "1 for only what programs do in a row or once") != 0;
  options.Finish();
  if (scale < 1) examples::Fail("--scale must be at least 1");

  const double start = NowUs();
  CUDA_CHECK(cudaFree(nullptr));
  Print("init", (NowUs() - start) * 1e-3, "ms");

  MeasureFirstLaunches(std::make_integer_sequence<int, kNumbered>());
  MeasureLaunchRow(scale);
  MeasureCopyRow(scale);
  if (rows_only) return 0;
  Launches launches(scale);
  launches.MeasureIssue();
  launches.MeasureThroughput();
  launches.MeasureLaunchAndSynchronize();
  launches.MeasureEvent();
  launches.Check();
  MeasureAllocation(scale);
  MeasureSmallCopies(scale);
  MeasureLargeCopies(scale, most_mib << 20);
  return 0;
}
