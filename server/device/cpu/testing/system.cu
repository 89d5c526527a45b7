// Kernels that call what the driver provides, meet across the grid, or call through pointers.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include <cassert>
#include <cstdint>
#include <cstdio>

namespace cg = cooperative_groups;

#define KERNEL extern "C" __global__ void

KERNEL prints(int* out, int n) {
  out[threadIdx.x] = printf("thread %d of %u: %s %.2f %c %lld %%\n", threadIdx.x, blockDim.x,
                            threadIdx.x & 1 ? "odd" : "even", 0.5 * n, 'x', -1ll * n);
}

KERNEL asserts(int limit) { assert(threadIdx.x + 10 * threadIdx.y < limit); }

KERNEL traps(int* out) {
  if (out[0] == 0) __trap();
}

KERNEL grid_rotate(int* data, int rounds) {
  cg::grid_group grid = cg::this_grid();
  const unsigned long long me = grid.thread_rank(), all = grid.size();
  data[me] = static_cast<int>(me);
  for (int i = 0; i < rounds; ++i) {
    grid.sync();
    const int next = data[(me + blockDim.x + 1) % all];
    grid.sync();
    data[me] = next;
  }
}

KERNEL grid_sum(const int* in, int* partial, int* out, int n) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  block.sync();
  int mine = 0;
  for (unsigned long long i = grid.thread_rank(); i < n; i += grid.size()) mine += in[i];
  auto tile = cg::tiled_partition<32>(block);
  mine = cg::reduce(tile, mine, cg::plus<int>());
  if (tile.thread_rank() == 0) atomicAdd(&sum, mine);
  block.sync();
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
  grid.sync();
  if (grid.thread_rank() == 0) {
    *out = 0;
    for (int i = 0; i < gridDim.x; ++i) *out += partial[i];
  }
}

KERNEL groups(int* out) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  const int t = static_cast<int>(threadIdx.x);
  int s = cg::reduce(tile, t, cg::plus<int>());
  s = s * 1000 + cg::inclusive_scan(tile, t & 7);
  auto labeled = cg::labeled_partition(tile, t & 1);
  s = s * 10 + static_cast<int>(labeled.size());
  if (t & 2) {
    auto some = cg::coalesced_threads();
    s = s * 100 + static_cast<int>(some.thread_rank()) + some.shfl(t, 0) * 0;
  }
  out[t] = s;
}

struct Shape {
  __device__ virtual int Area(int x) const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  __device__ int Area(int x) const override { return x * x; }
};
struct Scaled : Shape {
  int scale;
  __device__ explicit Scaled(int s) : scale(s) {}
  __device__ int Area(int x) const override { return x * scale; }
};
KERNEL virtuals(int* out) {
  Shape* shape;
  if (threadIdx.x % 3 == 0) {
    shape = new Square;
  } else {
    shape = new Scaled(threadIdx.x % 3 + 4);
  }
  out[threadIdx.x] = shape->Area(threadIdx.x);
  delete shape;
}

typedef int (*Function)(int);
__device__ int Successor(int x) { return x + 1; }
__device__ int Twice(int x) { return 2 * x; }
__device__ int Down(int x) { return x == 0 ? 0 : 1 + Down(x - 1); }
__device__ Function g_table[3] = {Successor, Twice, Down};
KERNEL pointers(int* out) { out[threadIdx.x] = g_table[threadIdx.x % 3](threadIdx.x); }

KERNEL wild_call(Function f, int* out) { out[0] = f(1); }

KERNEL heap(uint64_t* out, uint64_t bytes) {
  char* const p = static_cast<char*>(malloc(bytes));
  out[threadIdx.x] = p == nullptr ? 0 : 1;
  if (p != nullptr) {
    memset(p, static_cast<int>(threadIdx.x), 16);
    out[threadIdx.x] += static_cast<uint64_t>(p[15] == static_cast<char>(threadIdx.x));
    free(p);
  }
}

KERNEL hoard(uint64_t* out) {
  uint64_t count = 0;
  while (malloc(1 << 16) != nullptr) ++count;
  *out = count;
}

KERNEL bad_free(char* p) { free(p); }

__device__ __noinline__ int Deep(int n, int* scratch) {
  int local[8];
  local[n & 7] = n;
  if (n == 0) return scratch[1];
  return Deep(n - 1, local) + local[n & 7] - n + 1;
}
KERNEL recursion(int* out, int depth) {
  int start[2] = {};
  out[0] = Deep(depth, start);
}
