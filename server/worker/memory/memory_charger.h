// Asks the server for device memory outside the arena.
#ifndef WARPLINE_SERVER_WORKER_MEMORY_MEMORY_CHARGER_H_
#define WARPLINE_SERVER_WORKER_MEMORY_MEMORY_CHARGER_H_

#include <cstdint>

#include "common/cuda/cuda_result.h"

namespace warpline::worker {

// Thread-safe.
class MemoryCharger {
 public:
  virtual ~MemoryCharger() = default;
  // Waits for the server's answer. `bytes` is in units of 64 KiB. kOutOfMemory beyond the session's
  // quota.
  virtual CudaResult Charge(uint32_t device, uint64_t bytes) = 0;
  // Gives back a piece as it was charged.
  virtual void Uncharge(uint32_t device, uint64_t bytes) = 0;
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_MEMORY_MEMORY_CHARGER_H_
