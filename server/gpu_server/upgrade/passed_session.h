// A session at rest as descriptors, for the next server on this host: nothing of it is copied.
#ifndef WARPLINE_SERVER_GPU_SERVER_UPGRADE_PASSED_SESSION_H_
#define WARPLINE_SERVER_GPU_SERVER_UPGRADE_PASSED_SESSION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "server/gpu_server/memory/swap_space.h"
#include "server/gpu_server/saved/session_parts.h"

namespace warpline::server {

// The descriptors that stand for a session. `owned` closes those of them that are new.
struct PassedSession {
  std::vector<int> fds;
  std::vector<UniqueFd> owned;
};

// Describes `*cut`, whose manifest is completed. The cut has to stay as it is until another process
// has the descriptors, and its memory until then as well: the manifest says where in the blocks of
// the server's SwapSpace it is. RESOURCE_EXHAUSTED without memory or descriptors.
absl::StatusOr<PassedSession> PassSession(SessionCut* cut);

// Takes over such a session. `space` has the former server's blocks; null where there are none.
// INVALID_ARGUMENT for what no server passes on, FAILED_PRECONDITION for another format.
absl::StatusOr<SessionCut> TakePassedSession(std::vector<UniqueFd> fds, SwapSpace* space);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_UPGRADE_PASSED_SESSION_H_
