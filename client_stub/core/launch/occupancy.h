// Asks how many blocks of a kernel fit on a multiprocessor.
#ifndef WARPLINE_CLIENT_STUB_CORE_LAUNCH_OCCUPANCY_H_
#define WARPLINE_CLIENT_STUB_CORE_LAUNCH_OCCUPANCY_H_

#include <cstdint>

#include "client_stub/core/launch/launch_attributes.h"
#include "client_stub/core/launch/launch_check.h"
#include "client_stub/core/module/kernel.h"

namespace warpline::stub {

// Asks the device's driver once for each set of arguments. CUDA_ERROR_INVALID_VALUE for a block
// that no device takes.
CUresult MaxActiveBlocks(Kernel* kernel, int block_threads, uint64_t dynamic_shared_bytes,
                         unsigned int flags, int* blocks);

// What AskClusters() asks the device's driver about launches in clusters.
enum class ClusterQuestion : uint32_t { kMaxActive = 0, kMaxSize = 1 };
CUresult AskClusters(Kernel* kernel, const LaunchGeometry& launch,
                     const LaunchAttributes& attributes, ClusterQuestion question, int* answer);

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_LAUNCH_OCCUPANCY_H_
