// Reduces arrays of int, float and double: warp shuffles, then shared memory, then one atomic per
// block; a vote counts positive values and a compare-and-swap loop finds the largest double.
#include <vector>

#include "check.h"

namespace {

constexpr int kThreads = 256;
constexpr unsigned kAllLanes = 0xffffffffu;

template <typename T>
__device__ T WarpSum(T value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_down_sync(kAllLanes, value, offset);
  }
  return value;
}

template <typename T>
__global__ void Sum(const T* values, int n, T* total) {
  __shared__ T warp_sums[kThreads / 32];
  T sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += values[i];
  }
  sum = WarpSum(sum);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) warp_sums[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = lane < kThreads / 32 ? warp_sums[lane] : T(0);
    sum = WarpSum(sum);
    if (lane == 0) atomicAdd(total, sum);
  }
}

__global__ void MinMaxAndPositives(const int* values, int n, int* least, int* most,
                                   unsigned long long* positives) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int value = i < n ? values[i] : values[0];
  int low = value, high = value;
  for (int mask = 16; mask > 0; mask /= 2) {
    low = min(low, __shfl_xor_sync(kAllLanes, low, mask));
    high = max(high, __shfl_xor_sync(kAllLanes, high, mask));
  }
  const unsigned vote = __ballot_sync(kAllLanes, i < n && value > 0);
  if (threadIdx.x % 32 == 0) {
    atomicMin(least, low);
    atomicMax(most, high);
    atomicAdd(positives, static_cast<unsigned long long>(__popc(vote)));
  }
}

// CUDA has no atomicMax for double, so programs write this loop.
__global__ void MaxByCompareAndSwap(const double* values, int n, double* most) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  auto* word = reinterpret_cast<unsigned long long*>(most);
  unsigned long long seen = *word;
  while (values[i] > __longlong_as_double(seen)) {
    const unsigned long long expected = seen;
    seen = atomicCAS(word, expected, __double_as_longlong(values[i]));
    if (seen == expected) break;
  }
}

// A small whole number scaled so that every partial sum is exact: the order of the additions, which
// atomics leave open, cannot change the result.
int SmallNumber(int i) { return static_cast<int>((i * 2654435761u) >> 16) % 41 - 17; }

template <typename T>
T* ToDevice(const std::vector<T>& values) {
  T* device;
  CUDA_CHECK(cudaMalloc(&device, values.size() * sizeof(T)));
  CUDA_CHECK(cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

template <typename T>
T FromDevice(T* device) {
  T value;
  CUDA_CHECK(cudaMemcpy(&value, device, sizeof(T), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(device));
  return value;
}

template <typename T>
void RunSum(const char* type, int n, T scale) {
  std::vector<T> values(n);
  T expected = 0;
  for (int i = 0; i < n; ++i) {
    values[i] = scale * T(SmallNumber(i));
    expected += values[i];
  }
  T* device = ToDevice(values);
  T* total = ToDevice(std::vector<T>(1, T(0)));
  Sum<T><<<64, kThreads>>>(device, n, total);
  CUDA_CHECK_LAUNCH();
  const T sum = FromDevice(total);
  CUDA_CHECK(cudaFree(device));
  examples::Expect(sum == expected, "sum of %s: %.17g, expected %.17g", type,
                   static_cast<double>(sum), static_cast<double>(expected));
}

void RunMinMax(int n) {
  std::vector<int> values(n);
  int least = 0, most = 0;
  unsigned long long positives = 0;
  for (int i = 0; i < n; ++i) {
    values[i] = SmallNumber(i) * 1000 + i % 97;
    if (values[i] < least) least = values[i];
    if (values[i] > most) most = values[i];
    if (values[i] > 0) ++positives;
  }
  int* device = ToDevice(values);
  int* device_least = ToDevice(std::vector<int>(1, 0));
  int* device_most = ToDevice(std::vector<int>(1, 0));
  auto* device_positives = ToDevice(std::vector<unsigned long long>(1, 0));
  MinMaxAndPositives<<<(n + kThreads - 1) / kThreads, kThreads>>>(device, n, device_least,
                                                                  device_most, device_positives);
  CUDA_CHECK_LAUNCH();
  const int got_least = FromDevice(device_least), got_most = FromDevice(device_most);
  const unsigned long long got_positives = FromDevice(device_positives);
  CUDA_CHECK(cudaFree(device));
  examples::Expect(got_least == least, "least int: %d, expected %d", got_least, least);
  examples::Expect(got_most == most, "largest int: %d, expected %d", got_most, most);
  examples::Expect(got_positives == positives, "positive ints: %llu, expected %llu", got_positives,
                   positives);
}

void RunMaxByCompareAndSwap(int n) {
  std::vector<double> values(n);
  double most = -1e300;
  for (int i = 0; i < n; ++i) {
    values[i] = SmallNumber(i) / 3.0 + i * 1e-9;
    if (values[i] > most) most = values[i];
  }
  double* device = ToDevice(values);
  double* device_most = ToDevice(std::vector<double>(1, -1e300));
  MaxByCompareAndSwap<<<(n + kThreads - 1) / kThreads, kThreads>>>(device, n, device_most);
  CUDA_CHECK_LAUNCH();
  const double got = FromDevice(device_most);
  CUDA_CHECK(cudaFree(device));
  examples::Expect(got == most, "largest double: %.17g, expected %.17g", got, most);
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "reduction", "reduces arrays of int, float and double");
  const int n = static_cast<int>(options.Number("n", 300000, "elements (at most 1000000)"));
  options.Finish();
  if (n < 1 || n > 1000000) examples::Fail("--n must be from 1 to 1000000");

  RunSum<int>("int", n, 1);
  RunSum<float>("float", n, 0.25f);
  RunSum<double>("double", n, 1.0 / 1024);
  RunMinMax(n);
  RunMaxByCompareAndSwap(n);
  return examples::Report("%d elements of int, float and double", n);
}
