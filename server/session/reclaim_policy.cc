#include "server/session/reclaim_policy.h"

#include <algorithm>
#include <tuple>

namespace warpline::server {

std::vector<uint64_t> ReclaimPolicy::Choose(std::vector<KeepingSession> sessions) const {
  std::sort(sessions.begin(), sessions.end(),
            [](const KeepingSession& one, const KeepingSession& other) {
              return std::tie(one.bytes, one.id) > std::tie(other.bytes, other.id);
            });
  std::vector<uint64_t> chosen;
  for (const KeepingSession& session : sessions) {
    if (session.bytes == 0 || chosen.size() == kMost) break;
    chosen.push_back(session.id);
  }
  return chosen;
}

}  // namespace warpline::server
