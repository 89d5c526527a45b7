// Host memory that a session takes in proportion to what its client sends: images of modules, the
// journal, and commands that wait.
//
// Each session has some of it for nothing (server/hostlink/handover/host_bytes.h). The rest is
// charged to whoever pays for the session, in pieces of one size, before it is taken.
#ifndef WARPLINE_SERVER_WORKER_MEMORY_HOST_MEMORY_H_
#define WARPLINE_SERVER_WORKER_MEMORY_HOST_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "server/worker/memory/memory_charger.h"

namespace warpline::worker {

// Thread-compatible: the decoder's.
class HostMemory {
 public:
  enum Part : size_t { kImages, kJournal, kQueue, kPartCount };
  // Of each piece.
  static constexpr uint64_t kUnit = 16u << 20;

  // `charger` is borrowed. A former worker of the session was charged for `charged` bytes, a
  // multiple of the unit, which this one takes over.
  HostMemory(MemoryCharger* charger, uint64_t charged) : charger_(charger), charged_(charged) {}

  // From now on the part has `bytes`, for which the server may be asked. False, and nothing is
  // changed, when it does not give that; never for less than the part has.
  bool Hold(Part part, uint64_t bytes);

  // Between these two nothing is asked of the server, which answers nobody while a worker takes
  // over: what the former worker had, this one may have.
  void BeginReplay() { replaying_ = true; }
  void EndReplay() { replaying_ = false; }

 private:
  bool Charge(uint64_t bytes);
  void Uncharge(uint64_t bytes);

  MemoryCharger* const charger_;
  uint64_t charged_;
  bool replaying_ = false;
  std::array<uint64_t, kPartCount> parts_{};
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_MEMORY_HOST_MEMORY_H_
