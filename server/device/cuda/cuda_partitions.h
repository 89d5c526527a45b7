// A GPU's partitions: green contexts of the driver.
#ifndef WARPLINE_SERVER_DEVICE_CUDA_CUDA_PARTITIONS_H_
#define WARPLINE_SERVER_DEVICE_CUDA_CUDA_PARTITIONS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "common/cuda/sm_path.h"
#include "server/device/cuda/cuda_part.h"
#include "server/device/facets/partitions.h"

namespace warpline::device {

// Thread-safe. Every method refuses with Lacks() where the driver has no green contexts.
//
// The driver splits what a device, or a green context, has, and nothing else. So whatever lies
// behind the first step of a path is reached through green contexts, which live as long as the
// call.
class CudaPartitions : public virtual Partitions, protected CudaPart {
 public:
  explicit CudaPartitions(CudaMember* member) : CudaPart(*member) {}
  ~CudaPartitions() override;

  void LimitPartitions(uint32_t multiprocessors) override;
  CudaResult Split(absl::Span<const SmStep> path, const SmStep& split,
                   SmSplitResult* result) override;
  CudaResult CreatePartition(absl::Span<const SmStep> path, PartitionId* partition) override;
  CudaResult DestroyPartition(PartitionId partition) override;
  CudaResult CreateStreamIn(PartitionId partition, int priority, StreamId* stream) override;

 private:
  // Multiprocessors of one split.
  using Resources = std::vector<CUdevResource>;
  // Green contexts, which end with it.
  class Held;

  bool has_green_contexts() const { return api_->p_cuGreenCtxCreate != nullptr; }
  // What the paths start at.
  CUresult Start(CUdevResource* start);
  // Makes the green context of the limit when it is first needed.
  CUresult FindLimited(const CUdevResource& whole, CUgreenCtx* green);
  // Follows `path`. `held` has what leads there.
  CUresult Follow(absl::Span<const SmStep> path, Held* held, Resources* reached);
  // Makes something of `reached` that can be split.
  CUresult Join(Held* held, Resources* reached) const;
  CUresult SplitOf(const CUdevResource& whole, const SmStep& split, Resources* groups,
                   CUdevResource* rest) const;
  CUresult Create(const Resources& resources, CUgreenCtx* green) const;

  std::atomic<uint32_t> limit_{0};
  // What a limit leaves. Null until it is needed.
  std::atomic<CUgreenCtx> limited_{nullptr};
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_CUDA_PARTITIONS_H_
