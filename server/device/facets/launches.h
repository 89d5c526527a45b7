// A context's kernels: launches, attributes, occupancy, the limits that hold for them and what they
// print.
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

  // In the order of submission on its stream. `params` is the kernel's parameter buffer, laid out
  // as Params() says.
  virtual CudaResult Launch(KernelId kernel, const LaunchConfig& config,
                            absl::Span<const std::byte> params, StreamId stream) = 0;
  virtual CudaResult Params(KernelId kernel, std::vector<ParamLayout>* params) = 0;

  // `attribute` is a CUfunction_attribute. kInvalidValue for one that the backend does not know.
  virtual CudaResult GetKernelAttribute(KernelId kernel, int attribute, int* value) = 0;
  virtual CudaResult SetKernelAttribute(KernelId kernel, int attribute, int value) = 0;
  // cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags.
  virtual CudaResult MaxActiveBlocks(KernelId kernel, int block_threads,
                                     size_t dynamic_shared_bytes, uint32_t flags, int* blocks) = 0;
  // cuOccupancyMaxActiveClusters and cuOccupancyMaxPotentialClusterSize; the cluster is among the
  // attributes of `config`. Capability::kClusters.
  virtual CudaResult MaxActiveClusters(KernelId kernel, const LaunchConfig& config,
                                       int* clusters) = 0;
  virtual CudaResult MaxClusterSize(KernelId kernel, const LaunchConfig& config, int* size) = 0;

  // `limit` is a CUlimit, `value` in its own unit. kUnsupportedLimit for one that the backend does
  // not know.
  virtual CudaResult GetLimit(int limit, uint64_t* value) = 0;
  virtual CudaResult SetLimit(int limit, uint64_t value) = 0;

  // printf goes to the process's descriptor 1 and a failed assert to 2, as CUDA's driver does it.
  // Returns once everything is written there that work complete by now has printed, in its order;
  // waits for nothing that still runs.
  virtual CudaResult FlushOutput() = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_LAUNCHES_H_
