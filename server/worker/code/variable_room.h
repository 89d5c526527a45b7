// Where the variables of guarded modules lie: the end of a device's part of the arena, which the
// client leaves alone. It is mapped block by block as it is taken, or at once; then it is handed
// out in smaller pieces.
//
// What is taken is the first that is free, in the order of addresses, so that a next worker that
// loads the same modules in the same order has them where they were, and can move them with fillers
// (server/worker/continuity/variable_placer.h).
#ifndef WARPLINE_SERVER_WORKER_CODE_VARIABLE_ROOM_H_
#define WARPLINE_SERVER_WORKER_CODE_VARIABLE_ROOM_H_

#include <cstdint>
#include <map>
#include <set>

#include "common/cuda/cuda_result.h"
#include "server/device/device.h"

namespace warpline::worker {

// Thread-compatible.
class VariableRoom {
 public:
  // The room is [base, base + bytes), multiples of device::kBlockBytes; `context` is borrowed.
  VariableRoom(device::Context* context, uint64_t base, uint64_t bytes)
      : context_(context), base_(base), end_(base + bytes) {}

  // Maps the first `bytes` of the room, a multiple of device::kBlockBytes, which are all there is
  // of it from now on. Nothing is there after an error of Memory::MapOwn(), which is returned.
  CudaResult MapAtOnce(uint64_t bytes);
  // Takes so much memory, which holds whatever was there. kOutOfMemory when there is no room, and
  // the errors of Memory::MapOwn().
  CudaResult Take(uint64_t bytes, uint64_t* address);
  // Takes the address of a block, with no memory there.
  CudaResult TakeAddress(uint64_t* address);
  // Gives back what either has taken. The memory stays mapped, for whoever comes next.
  void Give(uint64_t address);

 private:
  // The first free range of so many bytes; 0 if there is none.
  uint64_t FirstFree(uint64_t bytes) const;
  uint64_t Pieces(uint64_t bytes) const;

  device::Context* const context_;
  const uint64_t base_;
  uint64_t end_;
  uint64_t piece_bytes_ = device::kBlockBytes;
  std::map<uint64_t, uint64_t> taken_;  // Sizes by their addresses
  std::set<uint64_t> mapped_;           // Blocks that have memory
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_CODE_VARIABLE_ROOM_H_
