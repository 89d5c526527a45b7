// Receives sessions that another server hands over.
#ifndef WARPLINE_SERVER_GPU_SERVER_MOVES_RECEIVED_SESSIONS_H_
#define WARPLINE_SERVER_GPU_SERVER_MOVES_RECEIVED_SESSIONS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/gpu_server/memory/swap_space.h"
#include "server/gpu_server/moves/move_pipe.h"
#include "server/gpu_server/saved/session_parts.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

namespace warpline::server {

// The channel on which they come, from its second frame on. `channel` is borrowed.
class MoveChannel {
 public:
  MoveChannel(std::shared_ptr<MovePipe> pipe, Channel* channel) RUNS_ON(channel_loop);

  // Those of a ChannelHandler.
  bool NextFrame(Frame* frame) RUNS_ON(channel_loop);
  Accept OnFrame(Frame* frame) RUNS_ON(channel_loop);
  void OnClosed(const absl::Status& status) RUNS_ON(channel_loop) { pipe_->Detach(status); }

 private:
  const std::shared_ptr<MovePipe> pipe_;
  Channel* const channel_;
};

// The most that the sessions may have.
struct MoveLimits {
  uint32_t sessions = 0;
  uint64_t memory_bytes = 0;  // On the device, in all of them together; 0 for no bound.
};

// Reads `count` sessions, and takes host memory of `space` for them. INVALID_ARGUMENT for what no
// server would send, RESOURCE_EXHAUSTED for more than the limits; otherwise ReadParts()'s errors
// and those with which the connection ended. Blocks.
absl::StatusOr<std::vector<SessionCut>> ReceiveSessions(MovePipe* pipe, uint32_t count,
                                                        const MoveLimits& limits, SwapSpace* space);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_MOVES_RECEIVED_SESSIONS_H_
