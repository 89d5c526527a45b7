#include <memory>
#include <utility>

#include "common/cuda/sm_path.h"
#include "proto/devices.h"
#include "server/worker/commands/families.h"
#include "server/worker/executors/partition.h"

namespace warpline::worker {

void PartitionCommands::On(const cmd::SmSplit& command, std::string_view tail) {
  if (command.device >= parts_.devices->size()) return Refuse(CudaResult::kInvalidDevice);
  if (command.groups > kMaxSmGroups && command.groups != kCountSmGroups) {
    return Refuse(CudaResult::kInvalidValue);
  }
  order().ToControl<cmd::SmSplit>(NewTask(command, tail));
}

void PartitionCommands::On(const cmd::PartitionCreate& command, std::string_view tail) {
  if (tables().partitions.contains(command.partition) || !HasDeviceOf(command.partition)) {
    return Refuse(CudaResult::kInvalidHandle);
  }
  if (!HandlesLeft()) return;
  Task task = NewTask(command, tail);
  task.partition = std::make_shared<Partition>();
  task.partition->ticket = order().NextControlTicket();
  task.partition->device = DeviceOfHandle(command.partition);
  tables().partitions.emplace(command.partition, task.partition);
  order().ToControl<cmd::PartitionCreate>(std::move(task));
}

void PartitionCommands::On(const cmd::PartitionDestroy& command, std::string_view tail) {
  const auto found = tables().partitions.find(command.partition);
  // The client destroys what it could not create, too, of which the decoder may have refused all.
  if (found == tables().partitions.end()) return RetireHere();
  Task task = NewTask(command, tail);
  task.partition = std::move(found->second);
  tables().partitions.erase(found);
  order().ToControl<cmd::PartitionDestroy>(std::move(task));
}

}  // namespace warpline::worker
