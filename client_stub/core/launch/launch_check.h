// Checks whether the device accepts a launch, from what is known of the device and the kernel. CUDA
// reports these errors from the call itself.
#ifndef WARPLINE_CLIENT_STUB_CORE_LAUNCH_LAUNCH_CHECK_H_
#define WARPLINE_CLIENT_STUB_CORE_LAUNCH_LAUNCH_CHECK_H_

#include <cstdint>

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/module/kernel_limits.h"
#include "client_stub/core/runtime/device_limits.h"

namespace warpline::stub {

struct LaunchGeometry {
  uint32_t grid[3] = {};
  uint32_t block[3] = {};
  uint32_t dynamic_shared_bytes = 0;
};

// CUDA_ERROR_INVALID_VALUE for a block that exceeds the device's limits. Stateless.
CUresult CheckBlock(const uint32_t (&block)[3], const DeviceLimits& device);

// CUDA_ERROR_INVALID_VALUE for a geometry that exceeds the device's limits, or for more dynamic
// shared memory than the kernel may take; CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES for more threads than
// the kernel's registers leave room for. Stateless.
CUresult CheckLaunch(const LaunchGeometry& launch, const DeviceLimits& device,
                     const KernelLimits& kernel);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_LAUNCH_LAUNCH_CHECK_H_
