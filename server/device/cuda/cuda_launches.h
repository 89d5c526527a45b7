// A GPU's kernels: launches, attributes, occupancy, limits, output.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_LAUNCHES_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_LAUNCHES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/facets/launches.h"

namespace warpline::device {

// Thread-safe, as the driver is.
class CudaLaunches : public virtual Launches, protected CudaPart {
 public:
  static constexpr Capabilities kGives = Capability::kClusters;

  explicit CudaLaunches(CudaMember* member) : CudaPart(*member) {}
  ~CudaLaunches() override;

  CudaResult Launch(KernelId kernel, const LaunchConfig& config, absl::Span<const std::byte> params,
                    StreamId stream) override;
  CudaResult Params(KernelId kernel, std::vector<ParamLayout>* params) override;
  CudaResult GetKernelAttribute(KernelId kernel, int attribute, int* value) override;
  CudaResult SetKernelAttribute(KernelId kernel, int attribute, int value) override;
  CudaResult MaxActiveBlocks(KernelId kernel, int block_threads, size_t dynamic_shared_bytes,
                             uint32_t flags, int* blocks) override;
  CudaResult MaxActiveClusters(KernelId kernel, const LaunchConfig& config, int* clusters) override;
  CudaResult MaxClusterSize(KernelId kernel, const LaunchConfig& config, int* size) override;
  CudaResult GetLimit(int limit, uint64_t* value) override;
  // In a context of a shared device, kSuccess for what the limit allows already, kNotSupported for
  // more.
  CudaResult SetLimit(int limit, uint64_t value) override;
  CudaResult FlushOutput() override;

 private:
  std::atomic<CUstream> idle_stream_{nullptr};  // Nothing runs on it. Created when first needed.
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_LAUNCHES_H_
