// What a session's frames have come to, over all of its connections: what has been received from
// the client, and what was sent to it and may have to be sent again.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_SESSION_LINK_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_SESSION_LINK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "proto/frames.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

namespace warpline::server {

// Handed over from one channel's loop to the next by SessionPort.
class SessionLink {
 public:
  // What may be kept for a client that does not acknowledge. Beyond it nothing more is sent.
  static constexpr uint64_t kMaxKeptBytes = 32u << 20;
  static constexpr size_t kMaxKeptFrames = 16384;

  // From now on counted frames are kept. Called on any thread, before the first of them.
  void KeepFrames() { keeps_.store(true, std::memory_order_relaxed); }
  bool keeps() const { return keeps_.load(std::memory_order_relaxed); }

  // --- From the client.
  uint64_t received_seq() const RUNS_ON(channel_loop) { return received_seq_; }
  uint64_t received_controls() const RUNS_ON(channel_loop) { return received_controls_; }
  void OnCommands(uint64_t count) RUNS_ON(channel_loop) { received_seq_ += count; }
  void OnControl() RUNS_ON(channel_loop) { ++received_controls_; }

  // --- To the client.
  // Whether another counted frame may be sent.
  bool HasRoom() const RUNS_ON(channel_loop) {
    return kept_bytes() < kMaxKeptBytes && kept_.size() < kMaxKeptFrames && next_ == kept_.size();
  }
  // Counts a frame that is about to be sent, and keeps it. Its payload may become shared.
  void OnSend(Frame* frame) RUNS_ON(channel_loop);
  // The client has handled so many frames. INVALID_ARGUMENT when they were not sent.
  absl::Status OnAck(uint64_t frames) RUNS_ON(channel_loop);
  // The same from the lower half of the number.
  absl::Status OnShortAck(uint32_t frames) RUNS_ON(channel_loop);

  // A new connection of a client that has handled so many frames: what it lacks is sent again.
  // INVALID_ARGUMENT when it cannot be, as for frames that were never sent.
  absl::Status Rewind(uint64_t frames) RUNS_ON(channel_loop);
  // The next frame that is to be sent again.
  bool NextAgain(Frame* frame) RUNS_ON(channel_loop);

  // --- For another server to go on with.
  // The counts so far, and the kept frames in their order.
  struct State {
    uint64_t received_seq = 0;
    uint64_t received_controls = 0;
    uint64_t sent = 0;
    uint64_t acked = 0;
    std::vector<std::pair<uint32_t, std::string>> kept = {};  // Kinds and payloads.
  };
  State Show() const RUNS_ON(channel_loop);
  // Goes on from there, before the first channel. INVALID_ARGUMENT for what cannot be.
  absl::Status Adopt(State state) RUNS_ON(channel_loop);

  // Any thread.
  uint64_t kept_bytes() const { return kept_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Kept {
    uint32_t kind;
    std::shared_ptr<const std::string> payload;
  };

  std::atomic<bool> keeps_{false};
  uint64_t received_seq_ ABSL_GUARDED_BY(channel_loop) = 0;
  uint64_t received_controls_ ABSL_GUARDED_BY(channel_loop) = 0;
  uint64_t sent_ ABSL_GUARDED_BY(channel_loop) = 0;   // Counted frames so far.
  uint64_t acked_ ABSL_GUARDED_BY(channel_loop) = 0;  // Of those. kept_ has the others.
  std::deque<Kept> kept_ ABSL_GUARDED_BY(channel_loop);
  // Into kept_: what comes next of what is sent again.
  size_t next_ ABSL_GUARDED_BY(channel_loop) = 0;
  std::atomic<uint64_t> kept_bytes_{0};  // Written by the loop alone.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_SESSION_LINK_H_
