// Occupancy: the device's driver answers for one launch, and the other calls are computed from its
// answers.
#include "client_stub/core/launch/occupancy.h"

#include <algorithm>

#include "client_stub/core/module/kernel.h"
#include "client_stub/core/runtime/device.h"
#include "client_stub/core/runtime/runtime.h"

using namespace warpline::stub;

namespace {

CUresult EnterFor(CUfunction handle, Kernel** kernel) {
  WARPLINE_TRY(Enter());
  return FindFunction(NumberOf(handle), kernel);
}

CUresult Clusters(CUfunction function, const CUlaunchConfig* config, ClusterQuestion question,
                  int* answer) {
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(function, &kernel));
  if (answer == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel->device->attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  LaunchAttributes attributes;
  WARPLINE_TRY(ReadLaunchAttributes(config->attrs, config->numAttrs, &attributes));
  const LaunchGeometry launch = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                                 {config->blockDimX, config->blockDimY, config->blockDimZ},
                                 config->sharedMemBytes};
  return AskClusters(kernel, launch, attributes, question, answer);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned int flags) {
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(func, &kernel));
  return MaxActiveBlocks(kernel, blockSize, dynamicSMemSize, flags, numBlocks);
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func,
                                                             int blockSize,
                                                             size_t dynamicSMemSize) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
                                                              dynamicSMemSize, 0);
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(
    int* minGridSize, int* blockSize, CUfunction func,
    CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit,
    unsigned int flags) {
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(func, &kernel));
  if (minGridSize == nullptr || blockSize == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int warp = static_cast<int>(kernel->device->limits.warp_size);
  const int most_threads =
      kernel->device->attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  int limit = std::min(static_cast<int>(kernel->device->limits.max_threads_per_block),
                       kernel->attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  if (blockSizeLimit > 0) limit = std::min(limit, blockSizeLimit);
  int best_threads = 0, best_block = 0, best_blocks = 0;
  // Tries blocks from the largest down in whole warps, so that of equally good blocks the largest
  // is taken.
  for (int aligned = (limit + warp - 1) / warp * warp; aligned > 0; aligned -= warp) {
    const int block = std::min(aligned, limit);
    const size_t dynamic =
        blockSizeToDynamicSMemSize == nullptr ? dynamicSMemSize : blockSizeToDynamicSMemSize(block);
    int blocks;
    WARPLINE_TRY(MaxActiveBlocks(kernel, block, dynamic, flags, &blocks));
    if (blocks * block > best_threads) {
      best_threads = blocks * block;
      best_block = block;
      best_blocks = blocks;
    }
    if (best_threads >= most_threads) break;
  }
  *blockSize = best_block;
  *minGridSize = best_blocks * kernel->device->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                                  CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                  size_t dynamicSMemSize, int blockSizeLimit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(
      minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, 0);
}

CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func,
                                                         int numBlocks, int blockSize) {
  Kernel* kernel;
  WARPLINE_TRY(EnterFor(func, &kernel));
  if (dynamicSmemSize == nullptr || numBlocks <= 0 || blockSize <= 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  int blocks;
  WARPLINE_TRY(MaxActiveBlocks(kernel, blockSize, 0, 0, &blocks));
  if (numBlocks > blocks) return CUDA_ERROR_INVALID_VALUE;
  // This is NVIDIA's formula: each block's share in whole units of 128 bytes, less the kernel's
  // static shared memory, up to the most that the kernel may take.
  constexpr int kUnit = 128;
  const int share =
      kernel->device->attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) /
      numBlocks / kUnit * kUnit;
  const int left = share - kernel->attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  const int most = kernel->attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  *dynamicSmemSize = static_cast<size_t>(std::max(std::min(left, most), 0));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveClusters(int* numClusters, CUfunction func,
                                              const CUlaunchConfig* config) {
  return Clusters(func, config, ClusterQuestion::kMaxActive, numClusters);
}

CUresult CUDAAPI cuOccupancyMaxPotentialClusterSize(int* clusterSize, CUfunction func,
                                                    const CUlaunchConfig* config) {
  return Clusters(func, config, ClusterQuestion::kMaxSize, clusterSize);
}

}  // extern "C"
