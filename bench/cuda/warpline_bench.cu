// Times the CUDA calls that programs make most. It is an ordinary program of the runtime API: run
// unchanged with the native driver and with Warpline's, it gives figures to compare (see
// compare.py).
//
// Prints one JSON object a line: {"name": ..., "value": ..., "unit": ...}, with the unit "ms", "us"
// or "GB/s" (10^9 bytes). Results are checked outside the timed parts; a wrong one ends the program
// with exit status 1.
#include "../../examples/check.h"
#include "timing.h"

namespace {

using bench::MedianUs;
using bench::Print;

__global__ void CountLaunch(unsigned* launches) { *launches += 1; }

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
  options.Finish();
  if (scale < 1) examples::Fail("--scale must be at least 1");

  const double start = bench::NowUs();
  CUDA_CHECK(cudaFree(nullptr));
  Print("init", (bench::NowUs() - start) * 1e-3, "ms");

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
