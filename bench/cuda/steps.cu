// Makes steps as a framework does when it decodes: some work on the host before each of many small
// launches, and a result that is read back at the end of the step.
//
//   steps [--launches=270] [--host_rounds=20000] [--seconds=5] [--warmup_steps=20]
//
// A round on the host is a fixed amount of arithmetic, about a nanosecond of a processor that
// nobody else wants, and so is a step: many such programs at once show what is left to them of the
// processors. The last line of the output is a JSON object with the steps a second, and the median
// step in milliseconds.
#include <cstdint>
#include <vector>

#include "../../examples/check.h"
#include "timing.h"

namespace {

__global__ void Step(unsigned* data, unsigned add) { data[threadIdx.x] += add; }

// The compiler may not leave this out.
volatile uint64_t g_host_result;

void WorkOnHost(long long rounds) {
  uint64_t value = g_host_result;
  for (long long i = 0; i < rounds; ++i) value = value * 6364136223846793005u + 1;
  g_host_result = value;
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "steps", "steps of many small launches");
  const int launches = static_cast<int>(options.Number("launches", 270, "launches of a step"));
  const long long host_rounds = options.Number("host_rounds", 20000, "host work before a launch");
  const double seconds = static_cast<double>(options.Number("seconds", 5, "how long to go on"));
  const int warmup = static_cast<int>(options.Number("warmup_steps", 20, "steps not counted"));
  options.Finish();

  unsigned* data = nullptr;
  CUDA_CHECK(cudaMalloc(&data, 32 * sizeof(unsigned)));
  CUDA_CHECK(cudaMemset(data, 0, 32 * sizeof(unsigned)));
  unsigned expected = 0;
  const auto step = [&] {
    for (int i = 0; i < launches; ++i) {
      WorkOnHost(host_rounds);
      Step<<<1, 32>>>(data, 1);
    }
    CUDA_CHECK_LAUNCH();
    expected += static_cast<unsigned>(launches);
    unsigned result = 0;
    CUDA_CHECK(cudaMemcpy(&result, data, sizeof(result), cudaMemcpyDeviceToHost));
    if (result != expected) examples::Fail("a step gave %u and not %u", result, expected);
  };
  for (int i = 0; i < warmup; ++i) step();
  std::vector<double> times;
  const double start = bench::NowUs();
  double now = start;
  while (now < start + seconds * 1e6) {
    step();
    const double end = bench::NowUs();
    times.push_back(end - now);
    now = end;
  }
  std::sort(times.begin(), times.end());
  std::printf("{\"steps_a_second\": %.2f, \"step_ms\": %.3f}\n",
              static_cast<double>(times.size()) / ((now - start) * 1e-6),
              times[times.size() / 2] * 1e-3);
  CUDA_CHECK(cudaFree(data));
  return 0;
}
