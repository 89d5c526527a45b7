// Events, memset and asynchronous copies: elapsed times, polling, waits across streams, fills of
// every alignment, copies within the device and from pinned memory.
#include <vector>

#include "check.h"

namespace {

__global__ void Scale(unsigned* values, int n, unsigned factor, int repeats) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned value = values[i];
  for (int k = 0; k < repeats; ++k) value = value * factor + 1;
  values[i] = value;
}

unsigned ScaledOnHost(unsigned value, unsigned factor, int repeats) {
  for (int k = 0; k < repeats; ++k) value = value * factor + 1;
  return value;
}

void CheckEvents(unsigned* device, int n, cudaStream_t stream) {
  cudaEvent_t start, stop, plain;
  CUDA_CHECK(cudaEventCreate(&start));
  CUDA_CHECK(cudaEventCreate(&stop));
  CUDA_CHECK(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
  examples::Expect(cudaEventQuery(start) == cudaSuccess, "an event never recorded is not complete");

  CUDA_CHECK(cudaEventRecord(start, stream));
  Scale<<<(n + 255) / 256, 256, 0, stream>>>(device, n, 5, 200);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaEventRecord(stop, stream));
  cudaError_t state;
  long long polls = 0;
  while ((state = cudaEventQuery(stop)) == cudaErrorNotReady) ++polls;
  examples::Expect(state == cudaSuccess, "polling ended with %s", cudaGetErrorName(state));
  examples::Expect(cudaStreamQuery(stream) == cudaSuccess, "the stream is busy after its event");
  // A refused poll leaves its code behind as the last error.
  const cudaError_t last = cudaGetLastError();
  examples::Expect(last == cudaSuccess || last == cudaErrorNotReady, "last error after polling: %s",
                   cudaGetErrorName(last));
  float elapsed_ms = -1;
  CUDA_CHECK(cudaEventElapsedTime(&elapsed_ms, start, stop));
  examples::Expect(elapsed_ms >= 0, "elapsed time: %g ms", elapsed_ms);
  const cudaError_t refused = cudaEventElapsedTime(&elapsed_ms, start, plain);
  examples::Expect(refused == cudaErrorInvalidResourceHandle,
                   "elapsed time with an event without timing: %s", cudaGetErrorName(refused));
  cudaGetLastError();

  // Recording again moves the event.
  CUDA_CHECK(cudaEventRecord(start, stream));
  CUDA_CHECK(cudaEventRecord(stop, stream));
  CUDA_CHECK(cudaEventSynchronize(stop));
  CUDA_CHECK(cudaEventElapsedTime(&elapsed_ms, start, stop));
  examples::Expect(elapsed_ms >= 0, "elapsed time of nothing: %g ms", elapsed_ms);
  CUDA_CHECK(cudaEventDestroy(start));
  CUDA_CHECK(cudaEventDestroy(stop));
  CUDA_CHECK(cudaEventDestroy(plain));
}

// Each stream multiplies in turn; only the events keep the order.
void CheckWaits(unsigned* device, int n, cudaStream_t first, cudaStream_t second, int turns) {
  cudaEvent_t done;
  CUDA_CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  CUDA_CHECK(cudaMemsetAsync(device, 0, n * sizeof(unsigned), first));
  unsigned expected = 0;
  for (int turn = 0; turn < turns; ++turn) {
    const unsigned factor = 3 + 2 * turn;
    const cudaStream_t stream = turn % 2 == 0 ? first : second;
    const cudaStream_t other = turn % 2 == 0 ? second : first;
    Scale<<<(n + 255) / 256, 256, 0, stream>>>(device, n, factor, 20);
    CUDA_CHECK_LAUNCH();
    expected = ScaledOnHost(expected, factor, 20);
    CUDA_CHECK(cudaEventRecord(done, stream));
    CUDA_CHECK(cudaStreamWaitEvent(other, done, 0));
  }
  CUDA_CHECK(cudaEventDestroy(done));
  CUDA_CHECK(cudaDeviceSynchronize());
  std::vector<unsigned> values(n);
  CUDA_CHECK(cudaMemcpy(values.data(), device, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (unsigned value : values) wrong += value != expected;
  examples::Expect(wrong == 0, "%d of %d words are wrong after %d turns of two streams", wrong, n,
                   turns);
}

void CheckMemset(unsigned* device, int n, cudaStream_t stream) {
  const size_t bytes = n * sizeof(unsigned);
  std::vector<unsigned char> expected(bytes), got(bytes);
  auto* device_bytes = reinterpret_cast<unsigned char*>(device);
  const struct {
    size_t offset, length;
    int value;
  } kFills[] = {{0, bytes, 0x11},
                {0, bytes / 2, 0},
                {3, 1, 0xff},
                {5, 1021, 0x7e},
                {bytes - 13, 13, 0x100 + 0x42}};
  for (const auto& fill : kFills) {
    CUDA_CHECK(cudaMemset(device_bytes + fill.offset, fill.value, fill.length));
    std::memset(expected.data() + fill.offset, fill.value & 0xff, fill.length);
  }
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_CHECK(cudaMemsetAsync(device_bytes + 2048, 0xc3, 999, stream));
  std::memset(expected.data() + 2048, 0xc3, 999);
  // Fills a rectangle: 7 rows of 100 bytes, 160 bytes apart.
  CUDA_CHECK(cudaMemset2DAsync(device_bytes + 4096, 160, 0x5a, 100, 7, stream));
  for (int row = 0; row < 7; ++row) std::memset(expected.data() + 4096 + row * 160, 0x5a, 100);
  CUDA_CHECK(cudaStreamSynchronize(stream));
  CUDA_CHECK(cudaMemcpy(got.data(), device, bytes, cudaMemcpyDeviceToHost));
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < bytes; ++i) {
    if (got[i] != expected[i] && wrong++ == 0) first = i;
  }
  examples::Expect(wrong == 0, "%zu bytes are wrong after memset, the first at %zu", wrong, first);
}

// Copies pinned memory to the device, within the device, and back, all asynchronously on one
// stream.
void CheckPinnedCopies(unsigned* device, int n, cudaStream_t stream) {
  const size_t bytes = n * sizeof(unsigned);
  unsigned *in, *out, *second;
  CUDA_CHECK(cudaMallocHost(&in, bytes));
  CUDA_CHECK(cudaHostAlloc(&out, bytes, cudaHostAllocDefault));
  CUDA_CHECK(cudaMalloc(&second, bytes));
  for (int i = 0; i < n; ++i) in[i] = i * 40503u;
  std::memset(out, 0, bytes);
  CUDA_CHECK(cudaMemcpyAsync(device, in, bytes, cudaMemcpyHostToDevice, stream));
  // Every part moves by one place, and the last becomes the first.
  const size_t part = bytes / 4;
  auto* from = reinterpret_cast<char*>(device);
  auto* to = reinterpret_cast<char*>(second);
  for (int i = 0; i < 4; ++i) {
    CUDA_CHECK(cudaMemcpyAsync(to + (i + 1) % 4 * part, from + i * part, part,
                               cudaMemcpyDeviceToDevice, stream));
  }
  Scale<<<(n + 255) / 256, 256, 0, stream>>>(second, n, 9, 3);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaMemcpyAsync(out, second, bytes, cudaMemcpyDefault, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  int wrong = 0;
  for (int i = 0; i < n; ++i) {
    wrong += out[i] != ScaledOnHost(in[(i + n - n / 4) % n], 9, 3);
  }
  examples::Expect(wrong == 0, "%d of %d words are wrong after copies by pinned memory", wrong, n);
  CUDA_CHECK(cudaFreeHost(in));
  CUDA_CHECK(cudaFreeHost(out));
  CUDA_CHECK(cudaFree(second));
}

// The pageable source may be reused as soon as cudaMemcpy and cudaMemcpyAsync return.
void CheckPageableReuse(unsigned* device, int n, cudaStream_t stream) {
  std::vector<unsigned> host(n), got(n);
  for (int i = 0; i < n; ++i) host[i] = i ^ 0x1234567u;
  const std::vector<unsigned> expected = host;
  CUDA_CHECK(
      cudaMemcpyAsync(device, host.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice, stream));
  std::memset(host.data(), 0xee, n * sizeof(unsigned));
  CUDA_CHECK(
      cudaMemcpyAsync(got.data(), device, n * sizeof(unsigned), cudaMemcpyDeviceToHost, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  examples::Expect(got == expected, "a pageable source changed after the copy was seen changed");
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "events_and_memset", "events, memset, async copies");
  const int n = static_cast<int>(options.Number("n", 40000, "words (a multiple of 4)"));
  const int turns = static_cast<int>(options.Number("turns", 20, "turns of two streams"));
  options.Finish();
  if (n % 4 != 0 || n < 4096) examples::Fail("--n must be a multiple of 4 and at least 4096");

  unsigned* device;
  cudaStream_t first, second;
  CUDA_CHECK(cudaMalloc(&device, n * sizeof(unsigned)));
  CUDA_CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CUDA_CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CUDA_CHECK(cudaMemset(device, 0, n * sizeof(unsigned)));
  CUDA_CHECK(cudaDeviceSynchronize());
  CheckEvents(device, n, first);
  CheckWaits(device, n, first, second, turns);
  CheckMemset(device, n, first);
  CheckPinnedCopies(device, n, second);
  CheckPageableReuse(device, n, first);
  CUDA_CHECK(cudaStreamDestroy(first));
  CUDA_CHECK(cudaStreamDestroy(second));
  CUDA_CHECK(cudaFree(device));
  return examples::Report("%d words, %d turns", n, turns);
}
