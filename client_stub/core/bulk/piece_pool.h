// A pool of pieces of staging memory. It knows which pieces copies have taken and which the device
// still uses.
#ifndef WARPLINE_CLIENT_STUB_CORE_BULK_PIECE_POOL_H_
#define WARPLINE_CLIENT_STUB_CORE_BULK_PIECE_POOL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "client_stub/session/commands.h"
#include "common/mutex.h"

namespace warpline::stub {

// Thread-safe.
class PiecePool {
 public:
  static constexpr uint64_t kPieceBytes = 512u << 10;  // The usual size of a piece.

  // `commands` is borrowed. Each piece has `piece_bytes`.
  explicit PiecePool(const Commands* commands, uint64_t piece_bytes = kPieceBytes)
      : commands_(commands), piece_bytes_(piece_bytes) {}

  uint64_t piece_bytes() const { return piece_bytes_; }

  // Adds the whole pieces that fit into [address, address + bytes).
  void Add(uint64_t address, uint64_t bytes);

  // Takes an unused piece and returns its address. Returns 0 if that would leave fewer than `left`
  // unused pieces.
  uint64_t Take(size_t left = 0);
  // Like Take(), but waits a moment for other copies to give a piece back.
  uint64_t Await();
  // Gives a piece back. The device may use it until command `seq` of stream `stream` is complete;
  // with 0 for `seq` the device does not use it.
  void Give(uint64_t address, uint64_t stream, uint64_t seq);

 private:
  struct Used {
    uint64_t address;
    uint64_t stream;
    uint64_t seq;
  };

  const Commands* const commands_;
  const uint64_t piece_bytes_;
  Mutex mu_;
  std::vector<uint64_t> free_ ABSL_GUARDED_BY(mu_);
  std::deque<Used> used_
      ABSL_GUARDED_BY(mu_);  // Given back, oldest first; the device may use them.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BULK_PIECE_POOL_H_
