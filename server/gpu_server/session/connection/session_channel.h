// One channel's side of a session. It finds out from the first frame whether the client opens a
// session or resumes one, and checks what the client sends. It passes commands on to the worker's
// ring unparsed, and gives the channel what goes back. A channel whose first frame says that it is
// a bulk connection is a BulkChannel's from then on. One on which a server hands over sessions is a
// MoveChannel's.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_SESSION_CHANNEL_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_SESSION_CHANNEL_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/session.pb.h"
#include "server/gpu_server/moves/move_pipe.h"
#include "server/gpu_server/moves/received_sessions.h"
#include "server/gpu_server/session/bulk/bulk_channel.h"
#include "server/gpu_server/session/bulk/bulk_port.h"
#include "server/gpu_server/session/connection/first_frame_guard.h"
#include "server/gpu_server/session/connection/session_port.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

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
  // False when the client has too many memory requests under way; the channel is woken when it has
  // fewer.
  virtual bool TryCountRequest() = 0;
  // A bulk connection asks for host memory; the answer goes to its slot of the bulk port.
  virtual void OnBulkMemory(uint32_t slot, warpline_internal::HostMemoryRequest request) = 0;
  // The client wants a relay.
  virtual void OnRelayAsk() = 0;
  // A command waits for the worker, as SessionPort::AskAboutWaiting() asked.
  virtual void OnCommandsWait() = 0;
};

// A session, for the channel that serves it.
struct SessionSides {
  std::shared_ptr<SessionPort> port = nullptr;
  std::shared_ptr<SessionControl> control = nullptr;
  std::shared_ptr<BulkPort> bulk = nullptr;
  // In place of all these: the client is sent to the server to which its lease has moved.
  std::optional<warpline_internal::Redirect> redirect = std::nullopt;
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
  virtual absl::StatusOr<SessionSides> Find(const std::string& peer, uint64_t id,
                                            const std::string& secret) = 0;
  // Another server hands over the sessions of a lease. Their bytes go into the pipe, and whoever
  // reads them ends the channel. UNAUTHENTICATED for a ticket that does not hold, UNAVAILABLE while
  // draining.
  virtual absl::Status TakeMove(const std::string& peer, const warpline_internal::MoveHello& hello,
                                std::shared_ptr<MovePipe> pipe) = 0;
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

class SessionChannel : public SessionHandler {
 public:
  // `directory` is borrowed and outlives the channel.
  SessionChannel(const SessionChannelOptions& options, SessionDirectory* directory,
                 std::shared_ptr<FirstFrameGuard> guard, std::string peer)
      : options_(options),
        directory_(directory),
        guard_(std::move(guard)),
        peer_(std::move(peer)) {}

  void Started(Channel* channel) RUNS_ON(channel_loop) override;
  bool NextFrame(Frame* frame) RUNS_ON(channel_loop) override;
  Accept OnFrame(Frame* frame) RUNS_ON(channel_loop) override;
  void OnClosed(const absl::Status& status) RUNS_ON(channel_loop) override;

 private:
  using Clock = std::chrono::steady_clock;

  void OnFirst(const Frame& frame) RUNS_ON(channel_loop);
  void OnHello(const Frame& frame) RUNS_ON(channel_loop);
  void OnResume(const Frame& frame) RUNS_ON(channel_loop);
  void OnBulkHello(const Frame& frame) RUNS_ON(channel_loop);
  void OnMove(const Frame& frame) RUNS_ON(channel_loop);
  // Sends the client elsewhere, and ends the channel.
  void SendTo(const warpline_internal::Redirect& redirect) RUNS_ON(channel_loop);
  // Whether this channel has its session's link by now; does what is due on getting it.
  bool HoldsLink() RUNS_ON(channel_loop);
  Accept Dispatch(Frame* frame) RUNS_ON(channel_loop);
  Accept OnCommands(Frame* frame) RUNS_ON(channel_loop);
  Accept OnMemory(const Frame& frame) RUNS_ON(channel_loop);
  Accept OnAck(const Frame& frame) RUNS_ON(channel_loop);
  Accept OnReadBack(const Frame& frame) RUNS_ON(channel_loop);
  Accept Refuse(const absl::Status& status) RUNS_ON(channel_loop);
  bool NextOfSession(Frame* frame) RUNS_ON(channel_loop);
  bool NextReply(Frame* frame) RUNS_ON(channel_loop);
  void FillReceived(Frame* frame) RUNS_ON(channel_loop);
  bool AckDue() const RUNS_ON(channel_loop);

  const SessionChannelOptions options_;
  SessionDirectory* const directory_;
  const std::shared_ptr<FirstFrameGuard> guard_;
  const std::string peer_;
  Channel* channel_ ABSL_GUARDED_BY(channel_loop) = nullptr;

  // Null before the first frame. Shared with the control side, which outlives the channel.
  std::shared_ptr<SessionPort> port_ ABSL_GUARDED_BY(channel_loop);
  std::shared_ptr<SessionControl> control_ ABSL_GUARDED_BY(channel_loop);

  // Of a bulk connection, which has none of what follows, nor the two above.
  std::unique_ptr<BulkChannel> bulk_ ABSL_GUARDED_BY(channel_loop);
  // A channel on which a server hands over sessions has this alone.
  std::unique_ptr<MoveChannel> move_ ABSL_GUARDED_BY(channel_loop);
  // The last frame of a channel that has no session.
  std::optional<Frame> redirect_ ABSL_GUARDED_BY(channel_loop);

  bool closing_ ABSL_GUARDED_BY(channel_loop) = false;  // What still arrives is dropped.
  bool ring_broken_ ABSL_GUARDED_BY(channel_loop) = false;
  bool resumes_ ABSL_GUARDED_BY(channel_loop) = false;  // The session was another channel's before.
  bool moved_ ABSL_GUARDED_BY(channel_loop) = false;    // And that channel lived.
  bool holds_link_ ABSL_GUARDED_BY(channel_loop) = false;
  bool resumed_due_ ABSL_GUARDED_BY(channel_loop) = false;  // kResumed is the next frame.
  uint64_t client_has_ ABSL_GUARDED_BY(channel_loop) = 0;   // From kResume.
  uint64_t acked_seq_ ABSL_GUARDED_BY(channel_loop) = 0;
  uint64_t acked_controls_ ABSL_GUARDED_BY(channel_loop) = 0;
  uint64_t unacked_bytes_ ABSL_GUARDED_BY(channel_loop) = 0;
  Clock::time_point last_activity_ ABSL_GUARDED_BY(channel_loop) = Clock::now();
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_CONNECTION_SESSION_CHANNEL_H_
