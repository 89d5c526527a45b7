#include "client_stub/core/launch/block_groups.h"

#include <cstdint>

#include "client_stub/core/launch/occupancy.h"
#include "client_stub/core/runtime/device.h"

namespace warpline::stub {
namespace {

// The number of blocks in a cluster: what every device with clusters takes, and what any device
// takes on request.
constexpr uint64_t kPortableCluster = 8;
constexpr uint64_t kLargestCluster = 16;

}  // namespace

CUresult CheckCluster(const Kernel& kernel, const LaunchGeometry& launch,
                      const LaunchAttributes& attributes) {
  constexpr CUfunction_attribute kRequired[] = {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
                                                CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
                                                CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH};
  bool compiled = false;
  for (const CUfunction_attribute which : kRequired) compiled |= kernel.attribute(which) != 0;
  const bool asked = attributes.cluster[0] != 0;
  if (!compiled && !asked) return CUDA_SUCCESS;
  uint64_t blocks = 1;
  for (int i = 0; i < 3; ++i) {
    const auto required = static_cast<uint32_t>(kernel.attribute(kRequired[i]));
    const uint32_t extent = compiled ? required : attributes.cluster[i];
    if (extent == 0 || launch.grid[i] % extent != 0 || (asked && attributes.cluster[i] != extent)) {
      return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    blocks *= extent;
    if (blocks > kLargestCluster) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  }
  const bool larger = kernel.attribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) != 0;
  return blocks > kPortableCluster && !larger ? CUDA_ERROR_INVALID_CLUSTER_SIZE : CUDA_SUCCESS;
}

CUresult CheckCooperative(Kernel* kernel, const LaunchGeometry& launch, const Stream& stream) {
  const Device& device = *kernel->device;
  if (device.attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) == 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const uint64_t blocks = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  const auto threads = static_cast<int>(launch.block[0] * launch.block[1] * launch.block[2]);
  int each;
  WARPLINE_TRY(MaxActiveBlocks(kernel, threads, launch.dynamic_shared_bytes, 0, &each));
  const GreenContext* const green = stream.context == nullptr ? nullptr : stream.context->green;
  const auto multiprocessors =
      green != nullptr
          ? green->multiprocessors
          : static_cast<uint32_t>(device.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  const uint64_t most = static_cast<uint64_t>(each) * multiprocessors;
  return blocks > most ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

}  // namespace warpline::stub
