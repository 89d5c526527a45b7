// A partition of a session: some of a device's multiprocessors, for streams and nodes of graphs.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_PARTITION_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_PARTITION_H_

#include <atomic>
#include <cstdint>

#include "common/cuda/cuda_result.h"
#include "server/device/facets/types.h"
#include "server/worker/executors/executor_host.h"

namespace warpline::worker {

// Written by the decoder and then by the control executor; others read `result` and `id` after they
// saw the control executor's `issued` pass `ticket`. It is shared because tasks keep it.
struct Partition {
  uint64_t ticket = 0;
  uint32_t device = 0;
  CudaResult result = CudaResult::kNotReady;
  device::PartitionId id{};
  // Its handle, streams and graphs. The device keeps it until none is left.
  std::atomic<uint32_t> users{1};

  void AddUser() { users.fetch_add(1, std::memory_order_relaxed); }
};

// Says that one of its users is gone, on the device too. The last one ends it there.
void EndUse(Partition* partition, const ExecutorHost& host);

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_PARTITION_H_
