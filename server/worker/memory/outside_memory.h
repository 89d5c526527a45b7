// What a session takes of its devices outside the arena without asking for it by size: variables of
// its modules, code of guarded ones, stacks, heaps, executable graphs, streams.
//
// Each session has a little of that for nothing, as it has its context. The rest is charged to its
// quota, in pieces: the server knows no more of it than that.
#ifndef WARPLINE_SERVER_WORKER_MEMORY_OUTSIDE_MEMORY_H_
#define WARPLINE_SERVER_WORKER_MEMORY_OUTSIDE_MEMORY_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/cuda/cuda_result.h"
#include "common/mutex.h"
#include "server/device/facets/modules.h"
#include "server/worker/memory/memory_charger.h"

namespace warpline::worker {

// Thread-safe. One thread at a time asks the server; the others wait for it.
class OutsideMemory {
 public:
  // Of each device. All contexts together have the device's reserve (--device_reserve).
  static constexpr uint64_t kAllowance = 16u << 20;
  // Pieces are multiples of it.
  static constexpr uint64_t kUnit = 2u << 20;

  // What a driver takes for a stream, for a partition, and for an executable graph with so many
  // nodes, whose definition, parameters included, has so many bytes. It does not say how much that
  // is: these are a little more than what was seen to be gone (docs/decisions/0022).
  static constexpr uint64_t kStreamBytes = 576u << 10;
  static constexpr uint64_t kPartitionBytes = 128u << 10;
  static constexpr uint64_t GraphBytes(uint64_t nodes, uint64_t definition_bytes) {
    return (128u << 10) + nodes * (2u << 10) + 3 * definition_bytes;
  }

  // `charger` is borrowed.
  OutsideMemory(MemoryCharger* charger, uint32_t devices) : charger_(charger), devices_(devices) {}

  // Takes `bytes` more of a device. kOutOfMemory, with nothing taken, beyond the session's quota.
  CudaResult Take(uint32_t device, uint64_t bytes);
  // Gives back what was taken.
  void Give(uint32_t device, uint64_t bytes);

  // Between these two nothing is asked of the server, which answers nobody while a worker takes
  // over. Afterwards all that is to be charged of the first device counts as charged, in one piece,
  // and is returned: the server takes it from what the former worker had been charged.
  void BeginReplay();
  uint64_t EndReplay();

 private:
  struct Device {
    uint64_t taken = 0;
    uint64_t charged = 0;
    std::multiset<uint64_t> pieces;
  };
  // What has to be charged for so much.
  static uint64_t Chargeable(uint64_t taken);

  MemoryCharger* const charger_;
  Mutex mu_;
  std::vector<Device> devices_ ABSL_GUARDED_BY(mu_);
  bool replaying_ ABSL_GUARDED_BY(mu_) = false;
};

// Has the code on one of the session's devices paid for like all that.
class PaidCode : public device::CodePayer {
 public:
  // `memory` is borrowed.
  PaidCode(OutsideMemory* memory, uint32_t device) : memory_(memory), device_(device) {}

  CudaResult TakeCode(uint64_t bytes) override { return memory_->Take(device_, bytes); }
  void GiveCode(uint64_t bytes) override { memory_->Give(device_, bytes); }

 private:
  OutsideMemory* const memory_;
  const uint32_t device_;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_MEMORY_OUTSIDE_MEMORY_H_
