#include "server/worker/executors/partition.h"

#include "server/worker/memory/outside_memory.h"

namespace warpline::worker {

void EndUse(Partition* partition, const ExecutorHost& host) {
  if (partition->users.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  if (partition->result != CudaResult::kSuccess) return;
  host.devices->context(partition->device)->DestroyPartition(partition->id);
  host.outside->Give(partition->device, OutsideMemory::kPartitionBytes);
}

}  // namespace warpline::worker
