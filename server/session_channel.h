// The channel's side of a session: checks what a client sends, passes commands on to the worker's
// ring unparsed, and gives the channel what goes back.
#ifndef WARPLINE_SERVER_SESSION_CHANNEL_H_
#define WARPLINE_SERVER_SESSION_CHANNEL_H_

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/session.pb.h"
#include "server/session_port.h"
#include "transport/channel.h"

namespace warpline {

// What the channel's side asks of the control side. Thread-safe, never blocks.
class SessionControl {
 public:
  virtual ~SessionControl() = default;
  virtual void OnHello(warpline_internal::Hello hello) = 0;
  virtual void OnMemoryRequest(warpline_internal::MemoryRequest request) = 0;
  virtual void OnMemoryReturn(warpline_internal::MemoryReturn request) = 0;
  // The client broke the protocol; the channel is closing.
  virtual void OnProtocolError(const absl::Status& status) = 0;
  virtual void OnReadMemory(warpline_internal::ReadBack request) = 0;
  // The worker wrote something into its ring that is no frame.
  virtual void OnWorkerGarbage(const absl::Status& status) = 0;
  // The stream ended. Nothing follows.
  virtual void OnChannelClosed(const absl::Status& status) = 0;
  // False when the client has too many memory requests under way.
  virtual bool TryCountRequest() = 0;
};

struct SessionChannelOptions {
  // How long nothing must have happened before small acknowledgements leave and the ring's doorbell
  // is armed. Must be less than the channel polls before it parks, since a parked channel is woken
  // by that doorbell alone.
  std::chrono::nanoseconds idle = std::chrono::microseconds(100);
  // Received commands are acknowledged no later than after so much.
  uint64_t ack_bytes = 256u << 10;
  uint64_t ack_commands = 4096;
};

// Runs on the channel's loop.
class SessionChannel : public SessionHandler {
 public:
  SessionChannel(const SessionChannelOptions& options, std::shared_ptr<SessionPort> port,
                 std::shared_ptr<SessionControl> control)
      : options_(options), port_(std::move(port)), control_(std::move(control)) {}

  void Started(Channel* channel) override;
  bool NextFrame(Frame* frame) override;
  Accept OnFrame(Frame* frame) override;
  void OnClosed(const absl::Status& status) override;

 private:
  using Clock = std::chrono::steady_clock;

  Accept OnHello(const Frame& frame);
  Accept OnCommands(const Frame& frame);
  Accept OnMemory(const Frame& frame);
  Accept OnReadBack(const Frame& frame);
  Accept Refuse(const absl::Status& status);
  bool NextReply(Frame* frame);
  void FillReceived(Frame* frame);
  bool AckDue() const;

  const SessionChannelOptions options_;
  // Shared with the control side, which outlives the channel.
  const std::shared_ptr<SessionPort> port_;
  const std::shared_ptr<SessionControl> control_;

  bool hello_seen_ = false;
  bool closing_ = false;  // What still arrives is dropped.
  bool ring_broken_ = false;
  uint64_t received_seq_ = 0;
  uint64_t acked_seq_ = 0;
  uint64_t unacked_bytes_ = 0;
  Clock::time_point last_activity_ = Clock::now();
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_SESSION_CHANNEL_H_
