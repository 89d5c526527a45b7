// Carries the frames of a session that are no commands from the threads that send them to the loop.
// Frames that the server counts are kept until it has acknowledged them, to be sent again on a new
// connection.
#ifndef WARPLINE_CLIENT_STUB_SESSION_CONNECTION_CONTROL_QUEUE_H_
#define WARPLINE_CLIENT_STUB_SESSION_CONNECTION_CONTROL_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "client_stub/session/connection/channel_slot.h"
#include "common/mutex.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

class ControlQueue {
 public:
  // `channel` is borrowed.
  explicit ControlQueue(ChannelSlot* channel) : channel_(channel) {}

  // Called on any thread. The frame leaves without any further call.
  void Push(Frame frame);

  // Moves out the next frame to send.
  bool Take(Frame* frame) RUNS_ON(channel_loop);
  // Notes that the server has taken `count` counted frames. Returns false when they were not sent.
  bool OnReceived(uint64_t count) RUNS_ON(channel_loop);
  // Begins a new connection to a server that has taken `count` frames: the others are sent again,
  // before all new ones. `*again` gets their number. Returns false when the server cannot have
  // taken so many.
  bool Rewind(uint64_t count, size_t* again) RUNS_ON(channel_loop);

 private:
  ChannelSlot* const channel_;

  std::atomic<bool> has_frames_{false};
  Mutex mu_;
  std::deque<Frame> frames_ ABSL_GUARDED_BY(mu_);

  uint64_t received_ ABSL_GUARDED_BY(channel_loop) = 0;
  std::deque<Frame> kept_ ABSL_GUARDED_BY(channel_loop);  // The counted frames sent since.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_CONNECTION_CONTROL_QUEUE_H_
