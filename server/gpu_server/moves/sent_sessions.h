// Sends sessions at rest to another server, which takes them over.
#ifndef WARPLINE_SERVER_GPU_SERVER_MOVES_SENT_SESSIONS_H_
#define WARPLINE_SERVER_GPU_SERVER_MOVES_SENT_SESSIONS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "server/gpu_server/memory/swap_space.h"
#include "server/gpu_server/moves/move_pipe.h"
#include "server/gpu_server/saved/session_parts.h"
#include "transport/channel.h"

namespace warpline::server {

// Opens a channel to a server. The handler is borrowed and outlives the channel. Blocks.
using MoveDialer = std::function<absl::StatusOr<std::unique_ptr<Channel>>(
    const std::string& endpoint, ChannelHandler* handler)>;

// Ends what SendSessions() waits for. Thread-safe.
class MoveStop {
 public:
  // Sending ends with CANCELLED, now and later.
  void Stop();

 private:
  friend class MoveStopScope;
  Mutex mu_;
  MovePipe* pipe_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

// Sends the sessions, and returns once the other server has taken them over, which the scheduler
// has confirmed to it. Returns the lease's token for that server. After an error that is not
// `*certain` it may have taken them over all the same. The manifests are completed; `space` has the
// memory, and is null where there is none. Blocks.
absl::StatusOr<std::string> SendSessions(const MoveDialer& dial, const std::string& endpoint,
                                         const std::string& ticket,
                                         std::vector<SessionCut>* sessions, const SwapSpace* space,
                                         MoveStop* stop, bool* certain);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MOVES_SENT_SESSIONS_H_
