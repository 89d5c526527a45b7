// Counts the server's frames that the client has taken, and decides when to acknowledge them. The
// server keeps counted frames until then.
#ifndef WARPLINE_CLIENT_STUB_SESSION_FRAMES_RECEIPTS_H_
#define WARPLINE_CLIENT_STUB_SESSION_FRAMES_RECEIPTS_H_

#include <cstdint>

#include "transport/channel.h"

namespace warpline::stub {

// Used on the loop only.
class Receipts {
 public:
  // Counts frames from now on: the session can be resumed.
  void Start() { counts_ = true; }
  // Notes that a counted frame was taken.
  void NoteTaken(uint64_t bytes);
  // Returns how many were taken.
  uint64_t taken() const { return taken_; }
  // Returns the acknowledgement that a frame of commands carries along.
  uint32_t InPassing() const { return counts_ ? static_cast<uint32_t>(taken_) : 0; }
  // A frame that says so has left, or the first one of a new connection.
  void NoteSaid();
  // Gives kAck once enough was taken since the last acknowledgement; returns false before.
  bool NextAck(Frame* frame);

 private:
  bool counts_ = false;
  uint64_t taken_ = 0;
  uint64_t unsaid_frames_ = 0;
  uint64_t unsaid_bytes_ = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_FRAMES_RECEIPTS_H_
