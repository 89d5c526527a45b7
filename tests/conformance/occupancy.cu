// How many blocks of a kernel fit.
#include "setting.h"

namespace conformance {
namespace {

size_t SharedPerThread(int block) { return static_cast<size_t>(block) * 16; }

void Blocks() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  CUfunction nothing = nullptr, reverse = nullptr;
  if (!LoadModule(&module) || !Kernel(&nothing, module, "nothing") ||
      !Kernel(&reverse, module, "reverse")) {
    return;
  }
  int blocks = 0, threads = 0, per_multiprocessor = 0, most = 0;
  SETUP(cuDeviceGetAttribute, &per_multiprocessor,
        CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, g_device);
  SETUP(cuDeviceGetAttribute, &most, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, g_device);
  CALL("256 threads", CUDA_SUCCESS, cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, nothing,
       256, 0);
  const int fit = per_multiprocessor / 256 < most ? per_multiprocessor / 256 : most;
  EQUAL(cuOccupancyMaxActiveBlocksPerMultiprocessor, "an empty kernel fills a multiprocessor",
        blocks, fit);
  CALL("40000 bytes of shared memory", CUDA_SUCCESS, cuOccupancyMaxActiveBlocksPerMultiprocessor,
       &threads, reverse, 64, 40000);
  HOLDS(cuOccupancyMaxActiveBlocksPerMultiprocessor, "shared memory limits the blocks",
        threads >= 1 && threads <= 8, "%d", threads);
  CALL("no threads", CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks,
       nothing, 0, 0);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuOccupancyMaxActiveBlocksPerMultiprocessor,
       &blocks, nullptr, 256, 0);
  CALL("nowhere to write", CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessor,
       nullptr, nothing, 256, 0);
  CALL("flags", CUDA_SUCCESS, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, &blocks,
       nothing, 256, 0, CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE);
  CALL("unknown flags", CUDA_ERROR_INVALID_VALUE,
       cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, &blocks, nothing, 256, 0, 0x80);

  int grid = 0, block = 0;
  CALL("empty kernel", CUDA_SUCCESS, cuOccupancyMaxPotentialBlockSize, &grid, &block, nothing,
       nullptr, 0, 0);
  HOLDS(cuOccupancyMaxPotentialBlockSize, "whole warps", block >= 32 && block % 32 == 0, "%d",
        block);
  HOLDS(cuOccupancyMaxPotentialBlockSize, "at least a block", grid >= 1, "%d", grid);
  CALL("shared memory by block size", CUDA_SUCCESS, cuOccupancyMaxPotentialBlockSize, &grid, &block,
       reverse, SharedPerThread, 0, 0);
  CALL("limited to 100 threads", CUDA_SUCCESS, cuOccupancyMaxPotentialBlockSize, &grid, &block,
       nothing, nullptr, 0, 100);
  HOLDS(cuOccupancyMaxPotentialBlockSize, "within the limit", block <= 100, "%d", block);
  CALL("with flags", CUDA_SUCCESS, cuOccupancyMaxPotentialBlockSizeWithFlags, &grid, &block,
       nothing, nullptr, 0, 0, CU_OCCUPANCY_DEFAULT);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuOccupancyMaxPotentialBlockSize, &grid, &block,
       nullptr, nullptr, 0, 0);
  size_t bytes = 0;
  CALL("2 blocks", CUDA_SUCCESS, cuOccupancyAvailableDynamicSMemPerBlock, &bytes, reverse, 2, 64);
  HOLDS(cuOccupancyAvailableDynamicSMemPerBlock, "some shared memory", bytes > 1024, "%zu", bytes);
  CALL("no function", CUDA_ERROR_INVALID_HANDLE, cuOccupancyAvailableDynamicSMemPerBlock, &bytes,
       nullptr, 2, 64);
}

void Clusters() {
  if (!Begin()) return;
  CUmodule module = nullptr;
  CUfunction nothing = nullptr;
  if (!LoadModule(&module) || !Kernel(&nothing, module, "nothing")) return;
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = 2;
  attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  CUlaunchConfig config = {};
  config.gridDimX = 8;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 64;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  if (on_cpu()) {
    REFUSED("clusters of 2", CUDA_SUCCESS, cuOccupancyMaxActiveClusters, &clusters, nothing,
            &config);
    REFUSED("clusters", CUDA_SUCCESS, cuOccupancyMaxPotentialClusterSize, &clusters, nothing,
            &config);
    return;
  }
  CALL("clusters of 2", CUDA_SUCCESS, cuOccupancyMaxActiveClusters, &clusters, nothing, &config);
  HOLDS(cuOccupancyMaxActiveClusters, "at least one", clusters >= 1, "%d", clusters);
  CALL("clusters", CUDA_SUCCESS, cuOccupancyMaxPotentialClusterSize, &clusters, nothing, &config);
  EQUAL(cuOccupancyMaxPotentialClusterSize, "portable size", clusters, 8);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  return Run(argc, argv, "occupancy", {{"blocks", Blocks}, {"clusters", Clusters}});
}
