// A kernel whose blocks wait for each other.
#include <cooperative_groups.h>

extern "C" __global__ void grid_sum(unsigned* cells, unsigned* total) {
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  cells[i] = i + 1;
  grid.sync();
  if (i == 0) {
    unsigned sum = 0;
    for (unsigned k = 0; k < gridDim.x * blockDim.x; ++k) sum += cells[k];
    *total = sum;
  }
}
