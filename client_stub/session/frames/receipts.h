// Counts the server's frames that the client has taken, and decides when to acknowledge them. The
// server keeps counted frames until then.
#ifndef WARPLINE_CLIENT_STUB_SESSION_FRAMES_RECEIPTS_H_
#define WARPLINE_CLIENT_STUB_SESSION_FRAMES_RECEIPTS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

class Receipts {
 public:
  // Counts frames from now on: the session can be resumed.
  void Start() RUNS_ON(channel_loop) { counts_ = true; }
  // Notes that a counted frame was taken.
  void NoteTaken(uint64_t bytes) RUNS_ON(channel_loop);
  // Returns how many were taken.
  uint64_t taken() const RUNS_ON(channel_loop) { return taken_; }
  // Returns the acknowledgement that a frame of commands carries along.
  uint32_t InPassing() const RUNS_ON(channel_loop) {
    return counts_ ? static_cast<uint32_t>(taken_) : 0;
  }
  // A frame that says so has left, or the first one of a new connection.
  void NoteSaid() RUNS_ON(channel_loop);
  // Gives kAck once enough was taken since the last acknowledgement; returns false before.
  bool NextAck(Frame* frame) RUNS_ON(channel_loop);

 private:
  bool counts_ ABSL_GUARDED_BY(channel_loop) = false;
  uint64_t taken_ ABSL_GUARDED_BY(channel_loop) = 0;
  uint64_t unsaid_frames_ ABSL_GUARDED_BY(channel_loop) = 0;
  uint64_t unsaid_bytes_ ABSL_GUARDED_BY(channel_loop) = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_FRAMES_RECEIPTS_H_
