// Kernels of newer architectures: asynchronous copies, barriers in shared memory, matrices.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_fp16.h>
#include <mma.h>

#include <cuda/barrier>

namespace cg = cooperative_groups;
using namespace nvcuda;

#define KERNEL extern "C" __global__ void

KERNEL copies(const int4* in, int4* out) {
  __shared__ int4 s[64];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, s, in, sizeof(s));
  cg::wait(block);
  out[threadIdx.x] = s[63 - threadIdx.x];
}

KERNEL barriers(int* out, int rounds) {
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ int s[128];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  int v = threadIdx.x;
  for (int i = 0; i < rounds; ++i) {
    s[threadIdx.x] = v;
    barrier.arrive_and_wait();
    v = s[(threadIdx.x + 33) % blockDim.x] + 1;
    auto token = barrier.arrive();
    barrier.wait(std::move(token));
  }
  out[threadIdx.x] = v;
}

template <typename T, typename C>
__device__ void Product(const T* a, const T* b, C* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, C> fc;
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::load_matrix_sync(fc, c, 16, wmma::mem_row_major);
  wmma::mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + fc.x[i];
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
KERNEL wmma_half(const __half* a, const __half* b, float* c) { Product(a, b, c); }
KERNEL wmma_byte(const signed char* a, const signed char* b, int* c) { Product(a, b, c); }

// A is 16 by 16, and B is 16 by 8 in column order; both are f16 in shared memory.
KERNEL mma_half(const __half* a, const __half* b, float* c) {
  __shared__ alignas(16) __half sa[256], sb[128];
  const int t = threadIdx.x;
  for (int i = t; i < 256; i += 32) sa[i] = a[i];
  for (int i = t; i < 128; i += 32) sb[i] = b[i];
  __syncwarp();
  unsigned ra[4], rb[2];
  float d[4] = {};
  const unsigned row = __cvta_generic_to_shared(&sa[(t % 16) * 16 + t / 16 * 8]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
               : "r"(row));
  const unsigned column = __cvta_generic_to_shared(&sb[(t % 8) * 16 + t / 8 % 2 * 8]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(rb[0]), "=r"(rb[1])
               : "r"(column));
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i) c[(t / 4 + i / 2 * 8) * 8 + t % 4 * 2 + i % 2] = d[i];
}

KERNEL mma_byte(const int* a, const int* b, int* c) {
  const int t = threadIdx.x;
  int d[4] = {};
  int ra[4], rb[2];
  for (int r = 0; r < 4; ++r) ra[r] = a[((t / 4 + r % 2 * 8) * 32 + t % 4 * 4 + r / 2 * 16) / 4];
  for (int r = 0; r < 2; ++r) rb[r] = b[(t / 4 * 32 + t % 4 * 4 + r * 16) / 4];
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i) c[(t / 4 + i / 2 * 8) * 8 + t % 4 * 2 + i % 2] = d[i];
}

KERNEL half_warp(const __half* a, float* c) {
  if (threadIdx.x < 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::load_matrix_sync(fa, a, 16);
    c[threadIdx.x] = fa.x[0];
  }
}
