// A context's kernels: launches, attributes, occupancy, the limits that hold for them, and what
// they print.
//
//   LaunchConfig config;
//   config.grid = {blocks, 1, 1};
//   config.block = {256, 1, 1};
//   CudaResult result = launches->Launch(kernel, config, params, stream);
#ifndef WARPLINE_SERVER_DEVICE_FACETS_LAUNCHES_H_
#define WARPLINE_SERVER_DEVICE_FACETS_LAUNCHES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/types.h"

namespace warpline::device {

// Thread-safe.
class Launches {
 public:
  static constexpr Capabilities kGives = {};

  virtual ~Launches() = default;

  // Launches in the order of submission on the stream. `params` is the kernel's parameter buffer,
  // laid out as Params() says.
  virtual CudaResult Launch(KernelId kernel, const LaunchConfig& config,
                            absl::Span<const std::byte> params, StreamId stream) = 0;
  virtual CudaResult Params(KernelId kernel, std::vector<ParamLayout>* params) = 0;

  // `attribute` is a CUfunction_attribute. kInvalidValue for one that the backend does not know.
  virtual CudaResult GetKernelAttribute(KernelId kernel, int attribute, int* value) = 0;
  virtual CudaResult SetKernelAttribute(KernelId kernel, int attribute, int value) = 0;
  // Does what cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags does.
  virtual CudaResult MaxActiveBlocks(KernelId kernel, int block_threads,
                                     size_t dynamic_shared_bytes, uint32_t flags, int* blocks) = 0;
  // Do what cuOccupancyMaxActiveClusters and cuOccupancyMaxPotentialClusterSize do; the cluster is
  // among the attributes of `config`. Both need Capability::kClusters.
  virtual CudaResult MaxActiveClusters(KernelId kernel, const LaunchConfig& config,
                                       int* clusters) = 0;
  virtual CudaResult MaxClusterSize(KernelId kernel, const LaunchConfig& config, int* size) = 0;

  // `limit` is a CUlimit, and `value` is in its own unit. kUnsupportedLimit for a limit that the
  // backend does not know.
  virtual CudaResult GetLimit(int limit, uint64_t* value) = 0;
  virtual CudaResult SetLimit(int limit, uint64_t value) = 0;

  // As with CUDA's driver, printf goes to the process's descriptor 1 and a failed assert to 2.
  // Returns once everything is written there, in its order, that work which is complete by now has
  // printed. Does not wait for work that still runs.
  virtual CudaResult FlushOutput() = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_LAUNCHES_H_
