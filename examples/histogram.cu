// Counts byte values with atomics on shared memory, and again with atomics on global memory.
#include <vector>

#include "check.h"

namespace {

constexpr int kBins = 256;

__global__ void HistogramShared(const unsigned char* data, int n, unsigned* bins) {
  __shared__ unsigned local[kBins];
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) local[bin] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&local[data[i]], 1u);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
    if (local[bin] != 0) atomicAdd(&bins[bin], local[bin]);
  }
}

__global__ void HistogramGlobal(const unsigned char* data, int n, unsigned* bins) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&bins[data[i]], 1u);
  }
}

void CheckBins(const char* kind, const unsigned* device_bins,
               const std::vector<unsigned>& expected) {
  std::vector<unsigned> bins(kBins);
  CUDA_CHECK(
      cudaMemcpy(bins.data(), device_bins, kBins * sizeof(unsigned), cudaMemcpyDeviceToHost));
  for (int bin = 0; bin < kBins; ++bin) {
    if (!examples::Expect(bins[bin] == expected[bin], "%s atomics, bin %d: %u, expected %u", kind,
                          bin, bins[bin], expected[bin])) {
      return;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "histogram", "counts bytes with shared and global atomics");
  const int n = static_cast<int>(options.Number("n", 1000000, "bytes to count"));
  options.Finish();

  std::vector<unsigned char> data(n);
  std::vector<unsigned> expected(kBins, 0);
  unsigned state = 12345;
  for (int i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    // The product of two random nibbles: uneven, so that some bins are contended.
    data[i] = static_cast<unsigned char>(((state >> 28) * ((state >> 24) & 15u)) & 255u);
    ++expected[data[i]];
  }
  unsigned char* device_data;
  unsigned* device_bins;
  CUDA_CHECK(cudaMalloc(&device_data, n));
  CUDA_CHECK(cudaMalloc(&device_bins, kBins * sizeof(unsigned)));
  CUDA_CHECK(cudaMemcpy(device_data, data.data(), n, cudaMemcpyHostToDevice));

  CUDA_CHECK(cudaMemset(device_bins, 0, kBins * sizeof(unsigned)));
  HistogramShared<<<32, 256>>>(device_data, n, device_bins);
  CUDA_CHECK_LAUNCH();
  CheckBins("shared", device_bins, expected);

  CUDA_CHECK(cudaMemset(device_bins, 0, kBins * sizeof(unsigned)));
  HistogramGlobal<<<32, 256>>>(device_data, n, device_bins);
  CUDA_CHECK_LAUNCH();
  CheckBins("global", device_bins, expected);

  CUDA_CHECK(cudaFree(device_data));
  CUDA_CHECK(cudaFree(device_bins));
  return examples::Report("%d bytes, %d bins", n, kBins);
}
