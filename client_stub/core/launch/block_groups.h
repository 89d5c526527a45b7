// Checks whether blocks that are to run together can: in clusters, or all at once.
#ifndef WARPLINE_CLIENT_STUB_CORE_LAUNCH_BLOCK_GROUPS_H_
#define WARPLINE_CLIENT_STUB_CORE_LAUNCH_BLOCK_GROUPS_H_

#include "client_stub/core/base/cuda_api.h"
#include "client_stub/core/launch/launch_attributes.h"
#include "client_stub/core/launch/launch_check.h"
#include "client_stub/core/module/kernel.h"

namespace warpline::stub {

// CUDA_ERROR_INVALID_CLUSTER_SIZE for clusters that do not fit the grid, the device or what the
// kernel was compiled for.
CUresult CheckCluster(const Kernel& kernel, const LaunchGeometry& launch,
                      const LaunchAttributes& attributes);

// CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE when the blocks cannot all run at once on the
// multiprocessors of the stream, CUDA_ERROR_NOT_SUPPORTED on a device without such launches. May
// ask the server.
CUresult CheckCooperative(Kernel* kernel, const LaunchGeometry& launch, const Stream& stream);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_LAUNCH_BLOCK_GROUPS_H_
