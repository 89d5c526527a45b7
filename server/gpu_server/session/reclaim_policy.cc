#include "server/gpu_server/session/reclaim_policy.h"

#include <algorithm>
#include <tuple>

namespace warpline::server {

std::vector<uint64_t> ReclaimPolicy::Choose(std::vector<KeepingSession> sessions) const {
  std::sort(sessions.begin(), sessions.end(),
            [](const KeepingSession& one, const KeepingSession& other) {
              return std::tie(one.score, one.bytes, one.id) >
                     std::tie(other.score, other.bytes, other.id);
            });
  std::vector<uint64_t> chosen;
  for (const KeepingSession& session : sessions) {
    if (chosen.size() == kMost) break;
    if (session.bytes == 0 || session.spared) continue;
    chosen.push_back(session.id);
  }
  return chosen;
}

}  // namespace warpline::server
