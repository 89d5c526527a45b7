// Pieces of page-locked memory that client, worker and devices share, for what passes through.
#ifndef WARPLINE_CLIENT_STUB_CORE_BULK_STAGING_H_
#define WARPLINE_CLIENT_STUB_CORE_BULK_STAGING_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "client_stub/core/memory/shared_host_memory.h"
#include "client_stub/session/commands.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe. The memory is taken as copies need it, and kept.
class Staging {
 public:
  static constexpr uint64_t kPieceBytes = 512u << 10;

  // Both are borrowed.
  Staging(SharedHostMemory* memory, const Commands* commands)
      : memory_(memory), commands_(commands) {}

  // Sees to there being pieces for a copy of `bytes`, at least `pieces`, or for a part of it.
  // Returns false where there is no such memory; it may have to be asked for.
  bool Reserve(uint64_t bytes, uint64_t pieces);

  // Takes a piece that nobody uses and returns its address; 0 when there is none.
  uint64_t Take();
  // The same, but waits for a moment for one that others give back.
  uint64_t Await();
  // Gives a piece back. Until command `seq` of stream `stream` is complete the device may use it;
  // with 0 nobody does.
  void Give(uint64_t address, uint64_t stream, uint64_t seq);

 private:
  struct Used {
    uint64_t address;
    uint64_t stream;
    uint64_t seq;
  };

  SharedHostMemory* const memory_;
  const Commands* const commands_;
  Mutex mu_;
  bool refused_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<uint64_t> free_ ABSL_GUARDED_BY(mu_);
  std::deque<Used> used_ ABSL_GUARDED_BY(mu_);  // Given back, the oldest first.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BULK_STAGING_H_
