// Adds two vectors: the smallest program that copies in, runs a kernel and copies out.
#include <vector>

#include "check.h"

namespace {

__global__ void VectorAdd(const float* a, const float* b, float* sum, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "vector_add", "adds two vectors of floats");
  const int n = static_cast<int>(options.Number("n", 1000000, "elements"));
  options.Finish();

  std::vector<float> a(n), b(n), sum(n);
  for (int i = 0; i < n; ++i) {
    a[i] = 0.5f * static_cast<float>(i % 1000);
    b[i] = 3.0f - 0.25f * static_cast<float>(i % 77);
  }
  const size_t bytes = sizeof(float) * n;
  float *device_a, *device_b, *device_sum;
  CUDA_CHECK(cudaMalloc(&device_a, bytes));
  CUDA_CHECK(cudaMalloc(&device_b, bytes));
  CUDA_CHECK(cudaMalloc(&device_sum, bytes));
  CUDA_CHECK(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));
  VectorAdd<<<(n + 255) / 256, 256>>>(device_a, device_b, device_sum, n);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaMemcpy(sum.data(), device_sum, bytes, cudaMemcpyDeviceToHost));

  int wrong = 0, first_wrong = -1;
  for (int i = 0; i < n; ++i) {
    if (sum[i] != a[i] + b[i] && wrong++ == 0) first_wrong = i;
  }
  examples::Expect(wrong == 0, "%d of %d sums are wrong, the first at %d", wrong, n, first_wrong);
  CUDA_CHECK(cudaFree(device_a));
  CUDA_CHECK(cudaFree(device_b));
  CUDA_CHECK(cudaFree(device_sum));
  return examples::Report("%d elements", n);
}
