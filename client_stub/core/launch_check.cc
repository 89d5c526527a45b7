#include "client_stub/core/launch_check.h"

namespace warpline::stub {

DeviceLimits LimitsOf(const RemoteDevice& device) {
  const auto attribute = [&device](CUdevice_attribute which) {
    return static_cast<uint32_t>(device.attributes[which]);
  };
  DeviceLimits limits;
  limits.max_grid[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  limits.max_grid[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  limits.max_grid[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  limits.max_block[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  limits.max_block[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  limits.max_block[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  limits.max_threads_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  limits.max_registers_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  if (const uint32_t warp = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE); warp != 0) {
    limits.warp_size = warp;
  }
  return limits;
}

CUresult CheckBlock(const uint32_t (&block)[3], const DeviceLimits& device) {
  for (int i = 0; i < 3; ++i) {
    // Unsigned: 0 - 1 is beyond every limit.
    if (block[i] - 1 >= device.max_block[i]) return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t threads = uint64_t{block[0]} * block[1] * block[2];
  return threads > device.max_threads_per_block ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CheckLaunch(const LaunchGeometry& launch, const DeviceLimits& device,
                     const KernelLimits& kernel) {
  for (int i = 0; i < 3; ++i) {
    if (launch.grid[i] - 1 >= device.max_grid[i]) return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult block = CheckBlock(launch.block, device);
  if (block != CUDA_SUCCESS) return block;
  const uint64_t threads = uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  if (threads > static_cast<uint64_t>(kernel.max_threads_per_block)) {
    const uint64_t warps = (threads + device.warp_size - 1) / device.warp_size;
    const bool registers =
        warps * device.warp_size * kernel.registers > device.max_registers_per_block;
    return registers ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_ERROR_INVALID_VALUE;
  }
  if (launch.dynamic_shared_bytes > static_cast<uint32_t>(kernel.max_dynamic_shared_bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // namespace warpline::stub
