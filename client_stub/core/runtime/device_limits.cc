#include "client_stub/core/runtime/device_limits.h"

#include "client_stub/core/base/cuda_api.h"

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

}  // namespace warpline::stub
