// Programs with one mistake each, which `warpline run --check` must find. Most go unnoticed
// natively.
//
//   planted NAME     runs one; NAME "correct" has no mistake
//
// Prints what a checker must say of the mistake: "expect KIND BYTES ADDRESS THREAD". The line with
// the mistake ends with a comment that says "Mistake:" and the name.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

__device__ int g_table[10];
__device__ int* g_forgotten;

__global__ void FillAll(int* out, int) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  out[i] = i;  // Mistake: overflow
}

__global__ void Differences(const int* in, int* out, int count) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) out[i] = in[i] - in[i - 1];  // Mistake: underflow
}

__global__ void Double(float4* values, int count) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= count) return;
  float4 v = values[i];  // Mistake: vector
  v.x *= 2;
  values[i] = v;
}

__global__ void Count(unsigned* bins, const int* values) {
  atomicAdd(&bins[values[threadIdx.x]], 1u);  // Mistake: atomic
}

__global__ void ReadFreed(const int* freed, int* out) {
  out[threadIdx.x] = freed[threadIdx.x];  // Mistake: freed
}

__global__ void ReadPooled(const int* freed, int* out) {
  out[threadIdx.x] = freed[threadIdx.x];  // Mistake: pooled
}

__global__ void SetHeader(char* record) {
  *reinterpret_cast<int*>(record + 2) = 7;  // Mistake: misaligned
}

__global__ void Reverse(int* values) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = values[threadIdx.x];  // Mistake: shared
  __syncthreads();
  values[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

__global__ void Note(int place) {
  g_table[place] = 1;  // Mistake: variable
}

__global__ void UseForgotten() {
  g_forgotten[threadIdx.x] = 1;  // Mistake: null
}

__global__ void ReadHosts(const int* host, int* out) {
  out[threadIdx.x] = host[threadIdx.x];  // Mistake: host
}

__global__ void FillPinned(unsigned char* bytes) {
  bytes[threadIdx.x] = 1;  // Mistake: pinned
}

__device__ __noinline__ int At(const int* values, int i) {
  return values[i];  // Mistake: function
}

__global__ void Sum(const int* values, int* out, int count) {
  int sum = 0;
  for (int i = 0; i <= count; ++i) sum += At(values, i);
  *out = sum;
}

// Everything that the others do, within bounds.
__global__ void Correct(int* values, float4* vectors, unsigned* bins, int count) {
  extern __shared__ int tile[];
  __shared__ int fixed[64];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  tile[threadIdx.x] = i < count ? values[i] : 0;
  fixed[threadIdx.x % 64] = i;
  __syncthreads();
  int local[8];
  for (int k = 0; k < 8; ++k)
    local[(k + i) % 8] = tile[(threadIdx.x + static_cast<unsigned>(k)) % blockDim.x];
  if (i < count) {
    values[i] = local[i % 8] + g_table[i % 10] + fixed[0];
    atomicAdd(&bins[i % 4], 1u);
    if (i % 4 == 0) vectors[i / 4].x += 1;
  }
}

void Expect(const char* kind, int bytes, const void* address, int thread) {
  std::printf("expect %s %d 0x%llx %d\n", kind, bytes,
              static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(address)), thread);
}

template <typename T>
T* OnDevice(size_t count) {
  T* memory = nullptr;
  if (cudaMalloc(&memory, count * sizeof(T)) != cudaSuccess) std::exit(3);
  cudaMemset(memory, 0, count * sizeof(T));
  return memory;
}

constexpr int kCount = 100;

void Overflow() {
  int* const out = OnDevice<int>(kCount);
  Expect("out-of-bounds", 4, out + kCount, kCount - 64);
  FillAll<<<2, 64>>>(out, kCount);
}

void Underflow() {
  int* const in = OnDevice<int>(kCount);
  int* const out = OnDevice<int>(kCount);
  Expect("out-of-bounds", 4, in - 1, 0);
  Differences<<<1, 128>>>(in, out, kCount);
}

void Vector() {
  float* const values = OnDevice<float>(4 * kCount - 2);
  Expect("out-of-bounds", 16, values + 4 * (kCount - 1), kCount - 1);
  Double<<<1, 128>>>(reinterpret_cast<float4*>(values), kCount);
}

void Atomic() {
  int host[32] = {};
  host[5] = 12;
  unsigned* const bins = OnDevice<unsigned>(8);
  int* const values = OnDevice<int>(32);
  cudaMemcpy(values, host, sizeof(host), cudaMemcpyHostToDevice);
  Expect("out-of-bounds", 4, bins + 12, 5);
  Count<<<1, 32>>>(bins, values);
}

void Freed() {
  int* const out = OnDevice<int>(kCount);
  int* const freed = OnDevice<int>(kCount);
  cudaFree(freed);
  Expect("out-of-bounds", 4, freed, 0);
  ReadFreed<<<1, 32>>>(freed, out);
}

void Pooled() {
  int* const out = OnDevice<int>(kCount);
  int* freed = nullptr;
  cudaMallocAsync(&freed, 4 * kCount, nullptr);
  cudaFreeAsync(freed, nullptr);
  Expect("out-of-bounds", 4, freed, 0);
  ReadPooled<<<1, 32>>>(freed, out);
}

void Misaligned() {
  char* const record = OnDevice<char>(kCount);
  Expect("misaligned", 4, record + 2, 0);
  SetHeader<<<1, 1>>>(record);
}

void Shared() {
  int* const values = OnDevice<int>(1024);
  std::printf("expect out-of-bounds 4 shared -1\n");
  Reverse<<<1, 1024, 64>>>(values);
}

void Variable() {
  void* table = nullptr;
  cudaGetSymbolAddress(&table, g_table);
  Expect("out-of-bounds", 4, static_cast<int*>(table) + 12, 0);
  Note<<<1, 1>>>(12);
}

void Null() {
  Expect("out-of-bounds", 4, nullptr, 0);
  UseForgotten<<<1, 1>>>();
}

void Host() {
  int* const out = OnDevice<int>(32);
  int* const host = static_cast<int*>(std::calloc(32, sizeof(int)));
  Expect("out-of-bounds", 4, host, 0);
  ReadHosts<<<1, 32>>>(host, out);
}

void Pinned() {
  unsigned char* bytes = nullptr;
  cudaMallocHost(&bytes, 200);
  void* device = nullptr;
  cudaHostGetDevicePointer(&device, bytes, 0);
  Expect("out-of-bounds", 1, static_cast<unsigned char*>(device) + 200, 200);
  FillPinned<<<1, 256>>>(static_cast<unsigned char*>(device));
}

void Function() {
  int* const values = OnDevice<int>(kCount);
  int* const out = OnDevice<int>(1);
  Expect("out-of-bounds", 4, values + kCount, 0);
  Sum<<<1, 1>>>(values, out, kCount);
}

void NoMistake() {
  int* const values = OnDevice<int>(1000);
  float4* const vectors = OnDevice<float4>(250);
  unsigned* const bins = OnDevice<unsigned>(4);
  int* managed = nullptr;
  int* pinned = nullptr;
  int* pooled = nullptr;
  cudaMallocManaged(&managed, 4000);
  cudaMallocHost(&pinned, 4000);
  cudaMallocAsync(&pooled, 4000, nullptr);
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  for (int* const memory : {values, managed, pinned, pooled}) {
    std::memset(managed, 0, 4000);
    Correct<<<8, 128, 128 * sizeof(int)>>>(memory, vectors, bins, 1000);
    // Allocations come and go while kernels run.
    int* const more = OnDevice<int>(1000);
    Correct<<<8, 128, 128 * sizeof(int), stream>>>(more, vectors, bins, 1000);
    cudaDeviceSynchronize();
    cudaFree(more);
  }
  cudaFreeAsync(pooled, nullptr);
}

struct Program {
  const char* name;
  void (*run)();
};

constexpr Program kPrograms[] = {
    {"correct", NoMistake},   {"overflow", Overflow},
    {"underflow", Underflow}, {"vector", Vector},
    {"atomic", Atomic},       {"freed", Freed},
    {"pooled", Pooled},       {"misaligned", Misaligned},
    {"shared", Shared},       {"variable", Variable},
    {"null", Null},           {"host", Host},
    {"pinned", Pinned},       {"function", Function},
};

}  // namespace

int main(int argc, char** argv) {
  for (const Program& program : kPrograms) {
    if (argc == 2 && std::strcmp(argv[1], program.name) == 0) {
      program.run();
      std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
      return 0;
    }
  }
  for (const Program& program : kPrograms) std::printf("%s\n", program.name);
  return 2;
}
