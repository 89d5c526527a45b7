// Multiplies two matrices through tiles in shared memory, in float and in double.
#include <cmath>
#include <vector>

#include "check.h"

namespace {

constexpr int kTile = 16;

// c (m x n) = a (m x k) * b (k x n), all row-major. One block per tile of c.
template <typename T>
__global__ void MatmulTiled(const T* a, const T* b, T* c, int m, int n, int k) {
  __shared__ T tile_a[kTile][kTile];
  __shared__ T tile_b[kTile][kTile + 1];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  T sum = 0;
  for (int base = 0; base < k; base += kTile) {
    const int a_column = base + threadIdx.x;
    const int b_row = base + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] = row < m && a_column < k ? a[row * k + a_column] : T(0);
    tile_b[threadIdx.y][threadIdx.x] = b_row < k && column < n ? b[b_row * n + column] : T(0);
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

template <typename T>
void RunMatmul(const char* type, int m, int n, int k, double tolerance) {
  std::vector<T> a(static_cast<size_t>(m) * k), b(static_cast<size_t>(k) * n);
  std::vector<T> c(static_cast<size_t>(m) * n);
  for (size_t i = 0; i < a.size(); ++i) a[i] = T(static_cast<int>(i % 23) - 11) / T(7);
  for (size_t i = 0; i < b.size(); ++i) b[i] = T(static_cast<int>(i % 31) - 15) / T(9);

  T *device_a, *device_b, *device_c;
  CUDA_CHECK(cudaMalloc(&device_a, a.size() * sizeof(T)));
  CUDA_CHECK(cudaMalloc(&device_b, b.size() * sizeof(T)));
  CUDA_CHECK(cudaMalloc(&device_c, c.size() * sizeof(T)));
  CUDA_CHECK(cudaMemcpy(device_a, a.data(), a.size() * sizeof(T), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(device_b, b.data(), b.size() * sizeof(T), cudaMemcpyHostToDevice));
  const dim3 block(kTile, kTile);
  const dim3 grid((n + kTile - 1) / kTile, (m + kTile - 1) / kTile);
  MatmulTiled<T><<<grid, block>>>(device_a, device_b, device_c, m, n, k);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaMemcpy(c.data(), device_c, c.size() * sizeof(T), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(device_a));
  CUDA_CHECK(cudaFree(device_b));
  CUDA_CHECK(cudaFree(device_c));

  double worst = 0;
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < n; ++column) {
      double expected = 0;
      for (int i = 0; i < k; ++i) {
        expected += static_cast<double>(a[static_cast<size_t>(row) * k + i]) *
                    static_cast<double>(b[static_cast<size_t>(i) * n + column]);
      }
      const double error =
          std::fabs(static_cast<double>(c[static_cast<size_t>(row) * n + column]) - expected);
      // Written so that a NaN counts as wrong.
      if (!(error <= worst)) worst = error;
    }
  }
  examples::Expect(worst <= tolerance * k, "%s: the largest error is %g, more than %g", type, worst,
                   tolerance * k);
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "matmul_tiled", "multiplies matrices by shared tiles");
  const int m = static_cast<int>(options.Number("m", 200, "rows of the product"));
  const int n = static_cast<int>(options.Number("n", 168, "columns of the product"));
  const int k = static_cast<int>(options.Number("k", 137, "inner size"));
  options.Finish();

  RunMatmul<float>("float", m, n, k, 1e-6);
  RunMatmul<double>("double", m, n, k, 1e-14);
  return examples::Report("%d x %d x %d in float and double", m, n, k);
}
