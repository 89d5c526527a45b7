// Launches a tiny kernel many times on one stream, synchronizes once, and checks that every launch
// ran, in order.
#include <time.h>

#include "check.h"

namespace {

struct Counter {
  int launches;
  int out_of_order;
};

__global__ void CountLaunch(Counter* counter, int index) {
  if (counter->launches != index) ++counter->out_of_order;
  ++counter->launches;
}

double NowUs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "launches", "many launches of a tiny kernel");
  const int n = static_cast<int>(options.Number("n", 10000, "launches"));
  options.Finish();
  if (n < 1) examples::Fail("--n must be at least 1");

  Counter* device;
  cudaStream_t stream;
  CUDA_CHECK(cudaMalloc(&device, sizeof(Counter)));
  CUDA_CHECK(cudaMemset(device, 0, sizeof(Counter)));
  CUDA_CHECK(cudaStreamCreate(&stream));
  // The first launch also loads the kernel, so it is not timed.
  CountLaunch<<<1, 1, 0, stream>>>(device, 0);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaStreamSynchronize(stream));

  const double start = NowUs();
  for (int i = 1; i < n; ++i) CountLaunch<<<1, 1, 0, stream>>>(device, i);
  const double issued = NowUs();
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaStreamSynchronize(stream));
  const double finished = NowUs();

  Counter counter;
  CUDA_CHECK(cudaMemcpy(&counter, device, sizeof(Counter), cudaMemcpyDeviceToHost));
  examples::Expect(counter.launches == n, "%d launches ran, expected %d", counter.launches, n);
  examples::Expect(counter.out_of_order == 0, "%d launches ran out of order", counter.out_of_order);
  CUDA_CHECK(cudaStreamDestroy(stream));
  CUDA_CHECK(cudaFree(device));
  const double timed = n > 1 ? n - 1 : 1;
  return examples::Report("%d launches, %.2f us each to issue, %.2f us each in all", n,
                          (issued - start) / timed, (finished - start) / timed);
}
