// Which sessions have their workers replaced when memory is short that they keep.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_RECLAIM_POLICY_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_RECLAIM_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace warpline::server {

// A session, and how much it keeps of what is wanted.
struct KeepingSession {
  uint64_t id = 0;
  uint64_t bytes = 0;
  uint32_t score = 0;   // The operator's policy's.
  bool spared = false;  // By that policy.
};

// Stateless: the same sessions give the same choice.
class ReclaimPolicy {
 public:
  // Each replacement holds its session up, and a request for memory waits for all of them.
  static constexpr size_t kMost = 4;

  // At most kMost of those that keep something and are not spared, by id, in the order in which
  // they are to be tried: what scores most comes first, of equals what keeps most, then the newest.
  // Empty when none keeps anything.
  std::vector<uint64_t> Choose(std::vector<KeepingSession> sessions) const;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_RECLAIM_POLICY_H_
