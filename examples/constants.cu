// `__constant__` and `__device__` variables: initial values, copies to and from symbols, symbol
// addresses and sizes, and what kernels see.
#include "check.h"

namespace {

struct Mixed {
  char letter;
  double real;
  short small;
  int whole[3];
};

__constant__ int c_table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__constant__ float c_scale = 2.5f;
__constant__ Mixed c_mixed = {'w', 0.125, -7, {10, 20, 30}};
__device__ int d_counter = 40;
__device__ double d_reals[4] = {0.5, -1.5, 2.25, 1e100};
__device__ unsigned d_zeroes[16];
__device__ int* d_pointer = &d_counter;

struct Seen {
  int table_sum;
  float scale;
  Mixed mixed;
  int counter;
  double reals[4];
  unsigned zeroes;
  int through_pointer;
};

__global__ void Look(Seen* seen) {
  int sum = 0;
  // A different index per lane, then one sum: reads of constant memory need not be uniform.
  for (int i = 0; i < 8; ++i) sum += (i + 1) * c_table[(i + threadIdx.x) % 8];
  if (threadIdx.x != 0) return;
  seen->table_sum = sum;
  seen->scale = c_scale;
  seen->mixed = c_mixed;
  seen->counter = d_counter;
  unsigned zeroes = 0;
  for (int i = 0; i < 4; ++i) seen->reals[i] = d_reals[i];
  for (int i = 0; i < 16; ++i) zeroes |= d_zeroes[i];
  seen->zeroes = zeroes;
  seen->through_pointer = *d_pointer;
}

__global__ void Change(int step) {
  atomicAdd(&d_counter, step);
  if (threadIdx.x < 16) d_zeroes[threadIdx.x] = threadIdx.x * c_table[0];
}

Seen LookFromKernel(Seen* device) {
  Seen seen;
  Look<<<1, 32>>>(device);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaMemcpy(&seen, device, sizeof(Seen), cudaMemcpyDeviceToHost));
  return seen;
}

void CheckInitialValues(Seen* device) {
  const Seen seen = LookFromKernel(device);
  examples::Expect(seen.table_sum == 162, "sum of the table: %d, expected 162", seen.table_sum);
  examples::Expect(seen.scale == 2.5f, "scale: %g, expected 2.5", seen.scale);
  examples::Expect(seen.mixed.letter == 'w' && seen.mixed.real == 0.125 && seen.mixed.small == -7 &&
                       seen.mixed.whole[0] == 10 && seen.mixed.whole[2] == 30,
                   "the struct in constant memory is not as initialised");
  examples::Expect(seen.counter == 40, "counter: %d, expected 40", seen.counter);
  examples::Expect(seen.reals[0] == 0.5 && seen.reals[1] == -1.5 && seen.reals[3] == 1e100,
                   "the doubles are not as initialised");
  examples::Expect(seen.zeroes == 0, "variables without a value are not zero");
  examples::Expect(seen.through_pointer == 40, "through the initialised pointer: %d, expected 40",
                   seen.through_pointer);
}

void CheckCopies(Seen* device) {
  const float scale = -8.0f;
  CUDA_CHECK(cudaMemcpyToSymbol(c_scale, &scale, sizeof(scale)));
  // Writes entries 2 and 3 of the table only.
  const int part[2] = {100, 200};
  CUDA_CHECK(cudaMemcpyToSymbol(c_table, part, sizeof(part), 2 * sizeof(int)));
  const int counter = 1000;
  CUDA_CHECK(
      cudaMemcpyToSymbolAsync(d_counter, &counter, sizeof(counter), 0, cudaMemcpyHostToDevice, 0));
  const Seen seen = LookFromKernel(device);
  examples::Expect(seen.scale == -8.0f, "scale after the copy: %g, expected -8", seen.scale);
  // 3*1 + 1*2 + 100*3 + 200*4 + 5*5 + 9*6 + 2*7 + 6*8
  examples::Expect(seen.table_sum == 1246, "sum after the copy: %d, expected 1246", seen.table_sum);
  examples::Expect(seen.counter == 1000 && seen.through_pointer == 1000,
                   "counter after the copy: %d and %d, expected 1000", seen.counter,
                   seen.through_pointer);

  Change<<<1, 64>>>(2);
  CUDA_CHECK_LAUNCH();
  int changed;
  CUDA_CHECK(cudaMemcpyFromSymbol(&changed, d_counter, sizeof(changed)));
  examples::Expect(changed == 1128, "counter after the kernel: %d, expected 1128", changed);
  unsigned last[2];
  CUDA_CHECK(cudaMemcpyFromSymbol(last, d_zeroes, sizeof(last), 14 * sizeof(unsigned)));
  examples::Expect(last[0] == 42 && last[1] == 45, "array after the kernel: %u %u, expected 42 45",
                   last[0], last[1]);
  int table[8];
  CUDA_CHECK(cudaMemcpyFromSymbol(table, c_table, sizeof(table)));
  examples::Expect(table[0] == 3 && table[2] == 100 && table[3] == 200 && table[7] == 6,
                   "constant table read back: %d %d %d %d", table[0], table[2], table[3], table[7]);
}

void CheckAddresses(Seen* device) {
  void* address = nullptr;
  size_t size = 0;
  CUDA_CHECK(cudaGetSymbolAddress(&address, d_counter));
  CUDA_CHECK(cudaGetSymbolSize(&size, d_counter));
  examples::Expect(address != nullptr, "the counter has no address");
  examples::Expect(size == sizeof(int), "size of the counter: %zu", size);
  CUDA_CHECK(cudaGetSymbolSize(&size, c_mixed));
  examples::Expect(size == sizeof(Mixed), "size of the struct: %zu, expected %zu", size,
                   sizeof(Mixed));
  const int value = -5;
  CUDA_CHECK(cudaMemcpy(address, &value, sizeof(value), cudaMemcpyHostToDevice));
  const Seen seen = LookFromKernel(device);
  examples::Expect(seen.counter == -5, "counter written by address: %d, expected -5", seen.counter);

  CUDA_CHECK(cudaGetSymbolAddress(&address, c_table));
  const int first = 50;
  CUDA_CHECK(cudaMemcpy(address, &first, sizeof(first), cudaMemcpyHostToDevice));
  const int table_sum = LookFromKernel(device).table_sum;
  // The first entry went from 3 to 50.
  examples::Expect(table_sum == 1246 + 47, "constant written by address: %d, expected %d",
                   table_sum, 1246 + 47);
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "constants", "__constant__ and __device__ variables");
  options.Finish();
  Seen* device;
  CUDA_CHECK(cudaMalloc(&device, sizeof(Seen)));
  CheckInitialValues(device);
  CheckCopies(device);
  CheckAddresses(device);
  CUDA_CHECK(cudaFree(device));
  return examples::Report("%d checks", examples::g_checks);
}
