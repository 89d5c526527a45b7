// What a session's frames have come to, over all of its connections: what has been received from
// the client, and what was sent to it and may have to be sent again.
#ifndef WARPLINE_SERVER_SESSION_CONNECTION_SESSION_LINK_H_
#define WARPLINE_SERVER_SESSION_CONNECTION_SESSION_LINK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "proto/frames.h"
#include "transport/channel.h"

namespace warpline::server {

// Belongs to the loop of the session's channel; handed over from one channel to the next by
// SessionPort.
class SessionLink {
 public:
  // What may be kept for a client that does not acknowledge. Beyond it nothing more is sent.
  static constexpr uint64_t kMaxKeptBytes = 32u << 20;
  static constexpr size_t kMaxKeptFrames = 16384;

  // From now on counted frames are kept. Before the first of them.
  void KeepFrames() { keeps_ = true; }
  bool keeps() const { return keeps_; }

  // --- From the client.
  uint64_t received_seq() const { return received_seq_; }
  uint64_t received_controls() const { return received_controls_; }
  void OnCommands(uint64_t count) { received_seq_ += count; }
  void OnControl() { ++received_controls_; }

  // --- To the client.
  // Whether another counted frame may be sent.
  bool HasRoom() const {
    return kept_bytes() < kMaxKeptBytes && kept_.size() < kMaxKeptFrames && next_ == kept_.size();
  }
  // Counts a frame that is about to be sent, and keeps it. Its payload may become shared.
  void OnSend(Frame* frame);
  // The client has handled so many frames. INVALID_ARGUMENT when they were not sent.
  absl::Status OnAck(uint64_t frames);
  // The same from the lower half of the number.
  absl::Status OnShortAck(uint32_t frames);

  // A new connection of a client that has handled so many frames: what it lacks is sent again.
  // INVALID_ARGUMENT when it cannot be, as for frames that were never sent.
  absl::Status Rewind(uint64_t frames);
  // The next frame that is to be sent again.
  bool NextAgain(Frame* frame);

  // Any thread.
  uint64_t kept_bytes() const { return kept_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Kept {
    uint32_t kind;
    std::shared_ptr<const std::string> payload;
  };

  bool keeps_ = false;
  uint64_t received_seq_ = 0;
  uint64_t received_controls_ = 0;
  uint64_t sent_ = 0;   // Counted frames so far.
  uint64_t acked_ = 0;  // Of those. kept_ has the others.
  std::deque<Kept> kept_;
  size_t next_ = 0;                      // Into kept_: what comes next of what is sent again.
  std::atomic<uint64_t> kept_bytes_{0};  // Written by the loop alone.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_SESSION_CONNECTION_SESSION_LINK_H_
