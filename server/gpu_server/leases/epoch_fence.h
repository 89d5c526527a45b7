// Refuses tokens of a scheduler's term when a later one has signed for the same lease.
//
// Several schedulers lead in turn, each in a term with a greater number (epoch). What a scheduler
// grants it has written down first, which only the one that leads can, so an older token of a lease
// is either a leftover that its holder has replaced, or of a scheduler that should not have signed
// it: after etcd was put back to an older state, say. In both cases the newer one counts.
#ifndef WARPLINE_SERVER_GPU_SERVER_LEASES_EPOCH_FENCE_H_
#define WARPLINE_SERVER_GPU_SERVER_LEASES_EPOCH_FENCE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "absl/status/status.h"

namespace warpline::server {

// Thread-compatible. Remembers the latest `max_leases` leases that it has seen.
class EpochFence {
 public:
  explicit EpochFence(size_t max_leases = 16384) : max_leases_(max_leases) {}

  // Notes a token that is good otherwise. UNAUTHENTICATED when a later term has signed for its
  // lease. Epoch 0 is that of a scheduler that is the only one.
  absl::Status Pass(const std::string& lease, uint64_t epoch);

 private:
  const size_t max_leases_;
  std::map<std::string, uint64_t> newest_;
  std::deque<std::string> order_;  // Of the leases in newest_, the oldest first.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_LEASES_EPOCH_FENCE_H_
