// The queries that programs make about kernels and the device: function attributes, dynamic shared
// memory, occupancy, device properties, free memory.
#include <vector>

#include "check.h"

namespace {

constexpr int kStaticWords = 512;

__global__ void StaticShared(unsigned* out) {
  __shared__ unsigned words[kStaticWords];
  for (int i = threadIdx.x; i < kStaticWords; i += blockDim.x) words[i] = i * 3u;
  __syncthreads();
  if (threadIdx.x == 0) *out = words[kStaticWords - 1];
}

// Uses `words` words of dynamic shared memory and writes their sum.
__global__ void DynamicShared(unsigned* out, int words) {
  extern __shared__ unsigned dynamic[];
  for (int i = threadIdx.x; i < words; i += blockDim.x) dynamic[i] = i;
  __syncthreads();
  if (threadIdx.x != 0) return;
  unsigned sum = 0;
  for (int i = 0; i < words; ++i) sum += dynamic[i];
  *out = sum;
}

__global__ void __launch_bounds__(128) Bounded(unsigned* out) { out[threadIdx.x] = threadIdx.x; }

using examples::Expect;

void CheckFunctionAttributes() {
  cudaFuncAttributes attributes;
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, StaticShared));
  Expect(attributes.sharedSizeBytes >= kStaticWords * sizeof(unsigned), "static shared size: %zu",
         attributes.sharedSizeBytes);
  Expect(attributes.maxThreadsPerBlock >= 32 && attributes.maxThreadsPerBlock <= 1024,
         "most threads per block: %d", attributes.maxThreadsPerBlock);
  Expect(attributes.numRegs > 0, "registers: %d", attributes.numRegs);
  Expect(attributes.ptxVersion >= 50, "PTX version: %d", attributes.ptxVersion);
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, Bounded));
  Expect(attributes.maxThreadsPerBlock == 128, "most threads of a bounded kernel: %d",
         attributes.maxThreadsPerBlock);
}

void CheckDynamicShared(unsigned* device, const cudaDeviceProp& properties) {
  // Below 48 KiB nothing needs to be asked for; above, the kernel must opt in.
  const int limit = static_cast<int>(properties.sharedMemPerBlockOptin);
  const int sizes[] = {4096, 48 * 1024, limit};
  for (int bytes : sizes) {
    if (bytes > limit) continue;
    if (bytes > 48 * 1024) {
      CUDA_CHECK(
          cudaFuncSetAttribute(DynamicShared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
      cudaFuncAttributes attributes;
      CUDA_CHECK(cudaFuncGetAttributes(&attributes, DynamicShared));
      Expect(attributes.maxDynamicSharedSizeBytes == bytes, "dynamic shared limit: %d, set to %d",
             attributes.maxDynamicSharedSizeBytes, bytes);
    }
    const unsigned words = bytes / sizeof(unsigned);
    DynamicShared<<<1, 128, bytes>>>(device, words);
    CUDA_CHECK_LAUNCH();
    unsigned sum;
    CUDA_CHECK(cudaMemcpy(&sum, device, sizeof(sum), cudaMemcpyDeviceToHost));
    const unsigned expected = static_cast<unsigned>(1ull * words * (words - 1) / 2);
    Expect(sum == expected, "sum in %d bytes of shared memory: %u, expected %u", bytes, sum,
           expected);
  }
  const cudaError_t refused = cudaFuncSetAttribute(
      DynamicShared, cudaFuncAttributeMaxDynamicSharedMemorySize, limit + 1024);
  Expect(refused == cudaErrorInvalidValue, "more shared memory than the device has: %s",
         cudaGetErrorName(refused));
  cudaGetLastError();
}

void CheckOccupancy(const cudaDeviceProp& properties) {
  int small = 0, large = 0, none = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&small, StaticShared, 64, 0));
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&large, StaticShared, 1024, 0));
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&none, DynamicShared, 128, 40 * 1024));
  Expect(small >= 1 && small <= properties.maxBlocksPerMultiProcessor, "blocks of 64: %d", small);
  Expect(large >= 1 && large <= small, "blocks of 1024: %d, of 64: %d", large, small);
  Expect(large * 1024 <= properties.maxThreadsPerMultiProcessor, "%d blocks of 1024 do not fit",
         large);
  Expect(none >= 1 && none * 40ull * 1024 <= properties.sharedMemPerMultiprocessor,
         "%d blocks of 40 KiB of shared memory do not fit", none);
  int grid = 0, block = 0;
  CUDA_CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, StaticShared, 0, 0));
  Expect(block >= 32 && block <= properties.maxThreadsPerBlock && block % 32 == 0,
         "best block size: %d", block);
  Expect(grid >= properties.multiProcessorCount, "best grid size: %d", grid);
  CUDA_CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, Bounded, 0, 0));
  Expect(block >= 32 && block <= 128, "best block size of a bounded kernel: %d", block);
}

void CheckProperties(const cudaDeviceProp& properties) {
  int count = 0, driver = 0, runtime = 0;
  CUDA_CHECK(cudaGetDeviceCount(&count));
  CUDA_CHECK(cudaDriverGetVersion(&driver));
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  Expect(count >= 1, "devices: %d", count);
  Expect(driver >= runtime / 1000 * 1000, "driver %d is older than runtime %d", driver, runtime);
  Expect(properties.name[0] != '\0', "the device has no name");
  Expect(properties.major >= 7, "compute capability: %d.%d", properties.major, properties.minor);
  Expect(properties.warpSize == 32, "warp size: %d", properties.warpSize);
  Expect(properties.maxThreadsPerBlock == 1024, "threads per block: %d",
         properties.maxThreadsPerBlock);
  Expect(properties.multiProcessorCount >= 1, "multiprocessors: %d",
         properties.multiProcessorCount);
  Expect(properties.sharedMemPerBlock >= 48 * 1024, "shared memory per block: %zu",
         properties.sharedMemPerBlock);
  Expect(properties.maxGridSize[0] == 0x7fffffff && properties.maxGridSize[1] >= 65535,
         "grid limits: %d %d", properties.maxGridSize[0], properties.maxGridSize[1]);
  Expect(properties.totalGlobalMem > 0, "the device has no memory");
  Expect(properties.unifiedAddressing == 1, "no unified addressing");
  int value = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  Expect(value == properties.multiProcessorCount, "multiprocessors by attribute: %d, not %d", value,
         properties.multiProcessorCount);
  CUDA_CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
  Expect(value == properties.major, "capability by attribute: %d, not %d", value, properties.major);
}

// Others may use the device at the same time, so a change is asked for only roughly.
void CheckMemGetInfo() {
  constexpr size_t kTaken = size_t{256} << 20;
  size_t before = 0, during = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&before, &total));
  Expect(before <= total && before > 0, "free %zu of %zu", before, total);
  void* memory;
  CUDA_CHECK(cudaMalloc(&memory, kTaken));
  CUDA_CHECK(cudaMemGetInfo(&during, &total));
  Expect(during < before, "free memory did not fall: %zu, then %zu", before, during);
  Expect(before - during >= kTaken / 2, "free memory fell by %zu only", before - during);
  CUDA_CHECK(cudaFree(memory));
  size_t after = 0;
  CUDA_CHECK(cudaMemGetInfo(&after, &total));
  Expect(after >= during + kTaken / 2, "free memory did not come back: %zu, then %zu", during,
         after);
}

void CheckPointerAttributes(const unsigned* device) {
  cudaPointerAttributes attributes;
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, device + 3));
  Expect(attributes.type == cudaMemoryTypeDevice && attributes.device == 0,
         "device memory has type %d on device %d", int(attributes.type), attributes.device);
  int local = 0;
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, &local));
  Expect(attributes.type == cudaMemoryTypeUnregistered, "a local variable has type %d",
         int(attributes.type));
  void* pinned;
  CUDA_CHECK(cudaMallocHost(&pinned, 4096));
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, pinned));
  Expect(attributes.type == cudaMemoryTypeHost, "pinned memory has type %d", int(attributes.type));
  CUDA_CHECK(cudaFreeHost(pinned));
}

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "attributes", "kernel and device attributes, occupancy");
  options.Finish();
  cudaDeviceProp properties;
  CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  unsigned* device;
  CUDA_CHECK(cudaMalloc(&device, 128 * sizeof(unsigned)));
  StaticShared<<<1, 64>>>(device);
  Bounded<<<1, 128>>>(device);
  CUDA_CHECK_LAUNCH();
  CUDA_CHECK(cudaDeviceSynchronize());

  CheckProperties(properties);
  CheckFunctionAttributes();
  CheckDynamicShared(device, properties);
  CheckOccupancy(properties);
  CheckPointerAttributes(device);
  CheckMemGetInfo();
  CUDA_CHECK(cudaFree(device));
  return examples::Report("%d checks, capability %d.%d, %d multiprocessors", examples::g_checks,
                          properties.major, properties.minor, properties.multiProcessorCount);
}
