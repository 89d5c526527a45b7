// The seam between sessions and whatever carries their bytes.
//
// A Channel is one ordered, reliable, bidirectional stream of frames between a client and a
// server. It is pull-based: the channel owns a loop (one thread) that asks its handler for the next
// frame to send, so whatever was appended meanwhile leaves as one batch, and a slow peer holds the
// handler's own queue back instead of growing a second one.
//
// The loop polls for `ChannelOptions::poll` after the last activity and then parks, asleep. Wake()
// tells it that NextFrame() may have something; it costs an atomic load while the loop polls and a
// system call only when it is parked.
#ifndef WARPLINE_TRANSPORT_CHANNEL_H_
#define WARPLINE_TRANSPORT_CHANNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "transport/channel_loop.h"

namespace warpline {

// Frames larger than this are refused on receipt: the channel closes with INVALID_ARGUMENT.
inline constexpr size_t kMaxFramePayload = (1u << 20) + (64u << 10);

// One unit of transfer. `kind` is meaningful to the session protocol alone (proto/frames.h).
struct Frame {
  uint32_t kind = 0;
  std::string payload;
  // Instead of `payload`, for a sender that keeps it to send it again. Received frames have none.
  std::shared_ptr<const std::string> shared = nullptr;

  std::string_view bytes() const { return shared != nullptr ? *shared : payload; }
};

enum class Accept {
  kTaken,  // The handler consumed the frame.
  kLater,  // No room now. The channel keeps the frame, stops reading, and offers it again after
           // the next Wake() (and, while it polls, on each turn of its loop).
};

// Receives a channel's events, all on the channel's loop and never concurrently. A channel's thread
// has a LoopScope of channel_loop. No method may block. The handler must outlive the channel.
class ChannelHandler {
 public:
  virtual ~ChannelHandler() = default;

  // Moves the next frame to send into `*frame`; returns false when there is nothing to send.
  virtual bool NextFrame(Frame* frame) RUNS_ON(channel_loop) = 0;

  // Offers a received frame. On kTaken the handler may have moved from `*frame`; on kLater it must
  // have left it as it was.
  virtual Accept OnFrame(Frame* frame) RUNS_ON(channel_loop) = 0;

  // The last call: the stream ended. OK when both sides ended in order, UNAVAILABLE when the
  // connection was lost, otherwise the peer's status. Frames not yet sent are gone. After the
  // peer's orderly end this comes once every frame was taken and NextFrame() has nothing more.
  virtual void OnClosed(const absl::Status& status) RUNS_ON(channel_loop) = 0;
};

struct ChannelOptions {
  // How long the loop polls after the last frame in either direction before it parks.
  absl::Duration poll = absl::Microseconds(200);
  // The loop's own thread sends no two frames within this time, so that what many calls append in
  // a row leaves in few frames, and the loop does not fight them for every one. Where others want
  // the processors the time is longer. Threads that Drive() send at once. For transports that can
  // be driven.
  absl::Duration gather = absl::ZeroDuration();
  // A peer silent for `keepalive` is asked for a sign of life; without one within
  // `keepalive_timeout` the channel closes with UNAVAILABLE.
  absl::Duration keepalive = absl::Seconds(10);
  absl::Duration keepalive_timeout = absl::Seconds(10);
};

// Thread-safe. Destroying a channel closes it and waits until OnClosed() has returned; it must not
// be destroyed on its own loop.
class Channel {
 public:
  virtual ~Channel() = default;

  // Which transport's it is, as a literal for people to read: "grpc".
  virtual const char* transport() const = 0;

  // NextFrame() may have something to send, or a frame refused with kLater may fit now.
  virtual void Wake() = 0;

  // Has a thread that waits for the peer do the loop's work itself, until done() returns true or
  // `limit` has passed, so that what it waits for need not be handed from thread to thread. It is
  // the loop's thread meanwhile: it calls the handler, and must hold nothing that the handler
  // takes. Returns false at once where the transport has no such thing.
  virtual bool Drive(absl::FunctionRef<bool()>, absl::Duration) { return false; }

  // Of a listening server: the client has shown that it may be here. Until then the channel counts
  // among those of strangers, of which each peer may have a few; when there are too many the oldest
  // is closed with UNAVAILABLE.
  virtual void Admit() {}

  // Ends the stream. What NextFrame() still returns is sent first when `status` is OK; otherwise
  // the peer sees `status`, and so does this side's OnClosed(). Frames that still arrive are
  // dropped. Returns at once; OnClosed() follows, with UNAVAILABLE when the peer has not ended its
  // half within five seconds. After OnClosed() this does nothing, nor does Wake(). Of the payloads
  // of a server's status the client gets the refusal (proto/refusal.h), and maybe no other.
  virtual void Close(const absl::Status& status) = 0;
};

// The handler of a session that a listening server has taken.
class SessionHandler : public ChannelHandler {
 public:
  // Hands the handler its channel, borrowed until OnClosed(). Called once, before anything else.
  virtual void Started(Channel* channel) RUNS_ON(channel_loop) = 0;
};

// Decides on the new sessions of a listening server.
class Acceptor {
 public:
  virtual ~Acceptor() = default;
  // Returns the handler of a new session, or nullptr and the status to refuse it with, which the
  // dialling side gets as its own, as with Channel::Close(). `peer` names the other end for logs:
  // "unix:...", or "ipv4:127.0.0.1:5555", with TLS followed by the names in its certificate, "
  // cn=alice san=alice.example.org". Called on the session's own thread, several at once: it may
  // block, and the client's dial waits meanwhile. The channel destroys the handler after
  // OnClosed().
  virtual std::unique_ptr<SessionHandler> Accept(const std::string& peer,
                                                 absl::Status* refusal) = 0;
};

}  // namespace warpline

#endif  // WARPLINE_TRANSPORT_CHANNEL_H_
