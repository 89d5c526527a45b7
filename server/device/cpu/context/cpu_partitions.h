// The CPU device's partitions. Its multiprocessors are the host's cores, which all kernels have in
// turns; a partition is a number of them, and bounds nothing but what it says of itself.
#ifndef WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_PARTITIONS_H_
#define WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_PARTITIONS_H_

#include <atomic>
#include <cstdint>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "common/cuda/sm_path.h"
#include "common/mutex.h"
#include "server/device/cpu/context/cpu_shared.h"
#include "server/device/cpu/streams/stream_set.h"
#include "server/device/facets/partitions.h"

namespace warpline::cpu {

// Thread-safe.
class CpuPartitions : public virtual device::Partitions {
 public:
  explicit CpuPartitions(CpuShared* shared) : shared_(shared) {}

  void LimitPartitions(uint32_t multiprocessors) override { limit_.store(multiprocessors); }
  CudaResult Split(absl::Span<const SmStep> path, const SmStep& split,
                   device::SmSplitResult* result) override;
  CudaResult CreatePartition(absl::Span<const SmStep> path,
                             device::PartitionId* partition) override;
  CudaResult DestroyPartition(device::PartitionId partition) override;
  CudaResult CreateStreamIn(device::PartitionId partition, int priority,
                            device::StreamId* stream) override;

 private:
  // How many multiprocessors are at the path.
  CudaResult Follow(absl::Span<const SmStep> path, uint32_t* count) const;

  CpuShared* const shared_;
  std::atomic<uint32_t> limit_{0};
  Mutex mu_;
  std::set<uint64_t> partitions_ ABSL_GUARDED_BY(mu_);
  uint64_t next_ ABSL_GUARDED_BY(mu_) = 1;
};

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_CONTEXT_CPU_PARTITIONS_H_
