#include "client_stub/core/launch/launch_check.h"

namespace warpline::stub {

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
