// What the client has taken of the server's frames, and when it says so. The server keeps those
// that count until then.
#ifndef WARPLINE_CLIENT_STUB_SESSION_FRAMES_RECEIPTS_H_
#define WARPLINE_CLIENT_STUB_SESSION_FRAMES_RECEIPTS_H_

#include <cstdint>

#include "transport/channel.h"

namespace warpline::stub {

// The loop's.
class Receipts {
 public:
  // From now on frames count: the session can be resumed.
  void Start() { counts_ = true; }
  // A frame that counts was taken.
  void NoteTaken(uint64_t bytes);
  // How many were taken.
  uint64_t taken() const { return taken_; }
  // What a frame of commands says of it, in passing.
  uint32_t InPassing() const { return counts_ ? static_cast<uint32_t>(taken_) : 0; }
  // A frame that says so has left, or the first one of a new connection.
  void NoteSaid();
  // kAck, once enough was taken since it was last said; false before.
  bool NextAck(Frame* frame);

 private:
  bool counts_ = false;
  uint64_t taken_ = 0;
  uint64_t unsaid_frames_ = 0;
  uint64_t unsaid_bytes_ = 0;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_FRAMES_RECEIPTS_H_
