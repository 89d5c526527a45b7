#include "server/device/cpu/context/cpu_partitions.h"

#include <algorithm>
#include <bit>

namespace warpline::cpu {
namespace {

// CUdevSmResourceSplit_flags: all that there are. A core is independent of all others anyway.
constexpr uint32_t kKnownFlags = 3;
constexpr uint32_t kNonBlocking = 1;

SmPart PartOf(uint32_t cores) { return cores == 0 ? SmPart{} : SmPart{cores, 1, 1}; }

// Splits `whole` cores into groups of `*size` each.
CudaResult SplitCores(uint32_t whole, const SmStep& split, uint32_t* size, uint32_t* groups) {
  if (split.least > whole || (split.flags & ~kKnownFlags) != 0) {
    return CudaResult::kInvalidResourceConfiguration;
  }
  *size = std::max(split.least, 1u);
  *groups = std::min(split.groups, whole / *size);
  return CudaResult::kSuccess;
}

uint32_t TakenOf(const SmStep& step) {
  int taken = 0;
  for (const uint64_t word : step.taken) taken += std::popcount(word);
  return static_cast<uint32_t>(taken);
}

// The number behind the last group that the step takes.
uint32_t EndOfTaken(const SmStep& step) {
  uint32_t end = 0;
  for (uint32_t group = 0; group < kMaxSmGroups; ++group) {
    if (step.Takes(group)) end = group + 1;
  }
  return end;
}

}  // namespace

CudaResult CpuPartitions::Follow(absl::Span<const SmStep> path, uint32_t* count) const {
  *count = static_cast<uint32_t>(shared_->cores());
  if (const uint32_t limit = limit_.load(); limit != 0) *count = std::min(*count, limit);
  for (const SmStep& step : path) {
    uint32_t size;
    uint32_t groups;
    const CudaResult result = SplitCores(*count, step, &size, &groups);
    if (result != CudaResult::kSuccess) return result;
    const uint32_t rest = *count - size * groups;
    if (EndOfTaken(step) > groups || (step.rest != 0 && rest == 0)) {
      return CudaResult::kInvalidResourceConfiguration;
    }
    *count = size * TakenOf(step) + (step.rest != 0 ? rest : 0);
  }
  return CudaResult::kSuccess;
}

CudaResult CpuPartitions::Split(absl::Span<const SmStep> path, const SmStep& split,
                                device::SmSplitResult* result) {
  uint32_t whole;
  CudaResult found = Follow(path, &whole);
  if (found != CudaResult::kSuccess) return found;
  result->whole = PartOf(whole);
  if (split.groups == 0) return CudaResult::kSuccess;
  uint32_t size;
  found = SplitCores(whole, split, &size, &result->count);
  if (found != CudaResult::kSuccess || split.groups == kCountSmGroups) return found;
  result->groups.assign(result->count, PartOf(size));
  result->rest = PartOf(whole - size * result->count);
  return CudaResult::kSuccess;
}

CudaResult CpuPartitions::CreatePartition(absl::Span<const SmStep> path,
                                          device::PartitionId* partition) {
  if (shared_->streams().error() != CudaResult::kSuccess) return shared_->streams().error();
  uint32_t count;
  const CudaResult result = Follow(path, &count);
  if (result != CudaResult::kSuccess) return result;
  MutexLock lock(&mu_);
  *partition = static_cast<device::PartitionId>(next_);
  partitions_.insert(next_++);
  return CudaResult::kSuccess;
}

CudaResult CpuPartitions::DestroyPartition(device::PartitionId partition) {
  MutexLock lock(&mu_);
  return partitions_.erase(static_cast<uint64_t>(partition)) != 0 ? CudaResult::kSuccess
                                                                  : CudaResult::kInvalidHandle;
}

CudaResult CpuPartitions::CreateStreamIn(device::PartitionId partition, int,
                                         device::StreamId* stream) {
  StreamSet& streams = shared_->streams();
  if (streams.error() != CudaResult::kSuccess) return streams.error();
  {
    MutexLock lock(&mu_);
    if (!partitions_.contains(static_cast<uint64_t>(partition))) return CudaResult::kInvalidHandle;
  }
  uint64_t number = 0;
  const CudaResult result = streams.CreateStream(shared_->place(), kNonBlocking, &number);
  *stream = device::StreamId{number};
  return result;
}

}  // namespace warpline::cpu
