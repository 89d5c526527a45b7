// The partitions of a FakeContext, which has 132 multiprocessors and makes groups of 8.
#ifndef WARPLINE_SERVER_WORKER_TESTING_FAKE_PARTITIONS_H_
#define WARPLINE_SERVER_WORKER_TESTING_FAKE_PARTITIONS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/cuda/cuda_result.h"
#include "common/cuda/sm_path.h"
#include "server/device/facets/partitions.h"
#include "server/worker/testing/fake_shared.h"

namespace warpline::worker {

// Thread-safe. Partitions are numbered from 50.
class FakePartitions : public virtual device::Partitions {
 public:
  explicit FakePartitions(FakeShared* shared)
      : log_(shared->log), streams_(shared->streams.get()) {}

  void LimitPartitions(uint32_t multiprocessors) override { limit_ = multiprocessors; }
  // Only what is at the empty path can be split, with flags 0.
  CudaResult Split(absl::Span<const SmStep> path, const SmStep& split,
                   device::SmSplitResult* result) override {
    if (!path.empty() || split.flags != 0) return CudaResult::kInvalidResourceConfiguration;
    result->whole = {limit_ == 0 ? 132 : limit_.load(), 8, 8};
    if (split.groups == 0) return CudaResult::kSuccess;
    result->count = std::min(split.groups, result->whole.count / 8);
    if (split.groups == kCountSmGroups) return CudaResult::kSuccess;
    result->groups.assign(result->count, SmPart{8, 8, 8});
    result->rest = {result->whole.count - 8 * result->count, 8, 8};
    return CudaResult::kSuccess;
  }
  // A partition of a path of more than one step cannot be made.
  CudaResult CreatePartition(absl::Span<const SmStep> path,
                             device::PartitionId* partition) override {
    if (path.size() > 1) return CudaResult::kInvalidResourceConfiguration;
    const uint64_t number = next_++;
    *partition = static_cast<device::PartitionId>(number);
    log_.AddLine(absl::StrCat("partition ", number, " steps=", path.size()));
    return CudaResult::kSuccess;
  }
  CudaResult DestroyPartition(device::PartitionId partition) override {
    log_.AddLine(absl::StrCat("end-partition ", static_cast<uint64_t>(partition)));
    return CudaResult::kSuccess;
  }
  CudaResult CreateStreamIn(device::PartitionId partition, int, device::StreamId* stream) override {
    *stream = static_cast<device::StreamId>(streams_->NewStream());
    return log_.Add("stream-in", *stream, absl::StrCat(static_cast<uint64_t>(partition)));
  }

 private:
  FakeLog& log_;
  FakeStreams* const streams_;
  std::atomic<uint32_t> limit_{0};
  std::atomic<uint64_t> next_{50};
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_TESTING_FAKE_PARTITIONS_H_
