// The control executor's partitions of multiprocessors.
#include <string>
#include <vector>

#include "common/cuda/sm_path.h"
#include "server/worker/executors/control_executor.h"
#include "server/worker/executors/partition.h"

namespace warpline::worker {

void ControlExecutor::Do(const cmd::SmSplit& command, Task& task) {
  std::vector<SmStep> path;
  SmStep split;
  split.groups = command.groups;
  split.least = command.least;
  split.flags = command.flags;
  device::SmSplitResult parts;
  CudaResult result = CudaResult::kInvalidValue;
  if (ReadSmPath(task.tail, &path)) {
    result = host_->devices->context(command.device)->Split(path, split, &parts);
  }
  const cmd::SmSplitReply reply = {parts.whole.count, parts.whole.smallest, parts.whole.alignment,
                                   parts.count};
  std::string tail;
  if (!parts.groups.empty()) {
    for (const SmPart& group : parts.groups) tail.append(BytesOf(group));
    tail.append(BytesOf(parts.rest));
  }
  host_->sink->Reply(task.seq, result, BytesOf(reply), tail);
}

void ControlExecutor::Do(const cmd::PartitionCreate&, Task& task) {
  Partition& partition = *task.partition;
  std::vector<SmStep> path;
  partition.result = CudaResult::kInvalidValue;
  if (ReadSmPath(task.tail, &path)) {
    partition.result = host_->outside->Take(partition.device, OutsideMemory::kPartitionBytes);
    if (partition.result == CudaResult::kSuccess) {
      partition.result =
          host_->devices->context(partition.device)->CreatePartition(path, &partition.id);
      if (partition.result != CudaResult::kSuccess) {
        host_->outside->Give(partition.device, OutsideMemory::kPartitionBytes);
      }
    }
  }
  host_->sink->Reply(task.seq, partition.result);
}

void ControlExecutor::Do(const cmd::PartitionDestroy&, Task& task) {
  EndUse(task.partition.get(), *host_);
}

}  // namespace warpline::worker
