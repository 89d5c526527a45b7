// One channel's side of a session: finds out from the first frame whether the client opens a
// session or resumes one, checks what the client sends, passes commands on to the worker's ring
// unparsed, and gives the channel what goes back.
#ifndef WARPLINE_SERVER_SESSION_CONNECTION_SESSION_CHANNEL_H_
#define WARPLINE_SERVER_SESSION_CONNECTION_SESSION_CHANNEL_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/session.pb.h"
#include "server/session/connection/first_frame_guard.h"
#include "server/session/connection/session_port.h"
#include "transport/channel.h"

namespace warpline::server {

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
  // The client goes on on another channel; `moved` when the session had one.
  virtual void OnResumed(bool moved) = 0;
  // The stream ended. Nothing follows on this channel.
  virtual void OnChannelClosed(const absl::Status& status) = 0;
  // False when the client has too many memory requests under way.
  virtual bool TryCountRequest() = 0;
};

// A session, for the channel that serves it.
struct SessionSides {
  std::shared_ptr<SessionPort> port;
  std::shared_ptr<SessionControl> control;
};

// All sessions, for channels that have none yet. Thread-safe, never blocks.
class SessionDirectory {
 public:
  virtual ~SessionDirectory() = default;
  // Admits a new session, for which the client shows the token of its hello; nothing is counted for
  // one that does not hold. UNAVAILABLE while draining, RESOURCE_EXHAUSTED when full; those of
  // LeaseBook::Join().
  virtual absl::StatusOr<SessionSides> Create(const std::string& peer,
                                              const warpline_internal::Hello& hello) = 0;
  // The session that a client wants to resume. PERMISSION_DENIED when there is none, or the secret
  // is not its own: a stranger learns nothing.
  virtual absl::StatusOr<SessionSides> Find(uint64_t id, const std::string& secret) = 0;
  // A client broke the protocol before it had a session.
  virtual void OnStrangersError(const std::string& peer, const absl::Status& status) = 0;
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
  // `directory` is borrowed and outlives the channel.
  SessionChannel(const SessionChannelOptions& options, SessionDirectory* directory,
                 std::shared_ptr<FirstFrameGuard> guard, std::string peer)
      : options_(options),
        directory_(directory),
        guard_(std::move(guard)),
        peer_(std::move(peer)) {}

  void Started(Channel* channel) override;
  bool NextFrame(Frame* frame) override;
  Accept OnFrame(Frame* frame) override;
  void OnClosed(const absl::Status& status) override;

 private:
  using Clock = std::chrono::steady_clock;

  void OnFirst(const Frame& frame);
  void OnHello(const Frame& frame);
  void OnResume(const Frame& frame);
  // Whether this channel has its session's link by now; does what is due on getting it.
  bool HoldsLink();
  Accept Dispatch(Frame* frame);
  Accept OnCommands(Frame* frame);
  Accept OnMemory(const Frame& frame);
  Accept OnAck(const Frame& frame);
  Accept OnReadBack(const Frame& frame);
  Accept Refuse(const absl::Status& status);
  bool NextOfSession(Frame* frame);
  bool NextReply(Frame* frame);
  void FillReceived(Frame* frame);
  bool AckDue() const;

  const SessionChannelOptions options_;
  SessionDirectory* const directory_;
  const std::shared_ptr<FirstFrameGuard> guard_;
  const std::string peer_;
  Channel* channel_ = nullptr;

  // Null before the first frame. Shared with the control side, which outlives the channel.
  std::shared_ptr<SessionPort> port_;
  std::shared_ptr<SessionControl> control_;

  bool closing_ = false;  // What still arrives is dropped.
  bool ring_broken_ = false;
  bool resumes_ = false;  // The session was another channel's before.
  bool moved_ = false;    // And that channel lived.
  bool holds_link_ = false;
  bool resumed_due_ = false;  // kResumed is the next frame.
  uint64_t client_has_ = 0;   // From kResume.
  uint64_t acked_seq_ = 0;
  uint64_t acked_controls_ = 0;
  uint64_t unacked_bytes_ = 0;
  Clock::time_point last_activity_ = Clock::now();
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_SESSION_CONNECTION_SESSION_CHANNEL_H_
