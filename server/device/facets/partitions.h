// A context's partitions: some of its device's multiprocessors, and streams whose kernels run on
// these alone. CUDA calls them green contexts.
//
//   SmStep split;                                     // Into halves of 66 multiprocessors or more.
//   split.least = 66;
//   split.groups = 2;
//   SmSplitResult result;
//   partitions->Split({}, split, &result);
//   split.Take(0);
//   partitions->CreatePartition({split}, &half);
//   partitions->CreateStreamIn(half, /*priority=*/0, &stream);
#ifndef WARPLINE_SERVER_DEVICE_FACETS_PARTITIONS_H_
#define WARPLINE_SERVER_DEVICE_FACETS_PARTITIONS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "common/cuda/sm_path.h"
#include "server/device/facets/capabilities.h"
#include "server/device/facets/types.h"

namespace warpline::device {

struct SmSplitResult {
  SmPart whole;                // What was split.
  uint32_t count = 0;          // How many groups there are or can be.
  std::vector<SmPart> groups;  // Empty after a split that only counts.
  SmPart rest;
};

// Thread-safe. Partitions may have multiprocessors in common.
class Partitions {
 public:
  static constexpr Capabilities kGives = Capability::kPartitions;

  virtual ~Partitions() = default;

  // The paths start at so many multiprocessors at most, or at the least part that the device can
  // make; at all of them for 0, which is what they do unless this is called. REQUIRES: no other
  // method of this class was called.
  virtual void LimitPartitions(uint32_t multiprocessors) = 0;

  // Splits what is at `path` by `split`, of which `taken` and `rest` mean nothing here. Nothing is
  // split for 0 groups; for kCountSmGroups the groups are only counted.
  // kInvalidResourceConfiguration for what cannot be split so.
  virtual CudaResult Split(absl::Span<const SmStep> path, const SmStep& split,
                           SmSplitResult* result) = 0;

  // Makes a partition of what is at `path`. May wait for running kernels.
  virtual CudaResult CreatePartition(absl::Span<const SmStep> path, PartitionId* partition) = 0;
  // Ends a partition, whose streams are destroyed and whose kernels in graphs are not launched any
  // more. kInvalidHandle for a number that is none.
  virtual CudaResult DestroyPartition(PartitionId partition) = 0;

  // Makes a stream that waits for no other.
  virtual CudaResult CreateStreamIn(PartitionId partition, int priority, StreamId* stream) = 0;
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_FACETS_PARTITIONS_H_
