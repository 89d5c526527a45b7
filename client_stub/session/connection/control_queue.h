// Frames of a session other than commands, from the threads that send them to the loop. Those that
// the server counts are kept until it has acknowledged them, to be sent again on a new connection.
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

namespace warpline::stub {

class ControlQueue {
 public:
  // `channel` is borrowed.
  explicit ControlQueue(ChannelSlot* channel) : channel_(channel) {}

  // Any thread. The frame leaves without any further call.
  void Push(Frame frame);

  // --- The loop.
  // Moves out the next frame to send.
  bool Take(Frame* frame);
  // The server has taken so many counted frames. False when they were not sent.
  bool OnReceived(uint64_t count);
  // A new connection to a server that has taken so many: the others are sent again, first of all.
  // `*again` is how many. False when it cannot have taken so many.
  bool Rewind(uint64_t count, size_t* again);

 private:
  ChannelSlot* const channel_;

  std::atomic<bool> has_frames_{false};
  Mutex mu_;
  std::deque<Frame> frames_ ABSL_GUARDED_BY(mu_);

  // Of the loop.
  uint64_t received_ = 0;
  std::deque<Frame> kept_;  // Those that were sent since.
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_CONNECTION_CONTROL_QUEUE_H_
