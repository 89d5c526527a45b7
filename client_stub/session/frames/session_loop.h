// The work of the channel's loop for a session.
//
// Application threads append to the command queue and wait in tables; the loop takes from the queue
// and answers into the tables. Only the loop fails the tables, so no reply is written anywhere
// after a wait has ended.
#ifndef WARPLINE_CLIENT_STUB_SESSION_FRAMES_SESSION_LOOP_H_
#define WARPLINE_CLIENT_STUB_SESSION_FRAMES_SESSION_LOOP_H_

#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "client_stub/session/connection/connection.h"
#include "client_stub/session/frames/receipts.h"
#include "client_stub/session/frames/reply_handler.h"
#include "client_stub/session/frames/session_parts.h"
#include "client_stub/session/handshake/arena_reservation.h"
#include "client_stub/session/handshake/handshake.h"
#include "client_stub/session/handshake/opening_answer.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

namespace warpline::stub {

// Everything that arrives is untrusted: a frame that a correct server does not send ends the
// session.
class SessionLoop final : public ChannelHandler {
 public:
  // `connection` and `answer` are borrowed and not used before the first frame. `arena` is the one
  // that the hello names.
  SessionLoop(const ArenaCandidate& arena, const SessionParts& parts, Connection* connection,
              OpeningAnswer* answer);

  bool NextFrame(Frame* frame) RUNS_ON(channel_loop) override;
  Accept OnFrame(Frame* frame) RUNS_ON(channel_loop) override;
  void OnClosed(const absl::Status& status) RUNS_ON(channel_loop) override;

  // The connection could not be replaced. Called by the redialer, since there is no loop.
  void OnGivenUp(const absl::Status& status) RUNS_ON(channel_loop);

  // Constant once the answer says that the session is open.
  const Welcomed& welcomed() const { return welcomed_; }

 private:
  bool HandleFrame(const Frame& frame, std::string* problem) RUNS_ON(channel_loop);
  bool HandleWelcome(std::string_view payload, std::string* problem) RUNS_ON(channel_loop);
  bool HandleResumed(std::string_view payload, std::string* problem) RUNS_ON(channel_loop);
  bool HandleReceived(std::string_view payload, std::string* problem) RUNS_ON(channel_loop);
  bool HandleRedirect(std::string_view payload, std::string* problem) RUNS_ON(channel_loop);
  void HandleFault(std::string_view payload) RUNS_ON(channel_loop);

  const ArenaCandidate arena_;
  const SessionParts parts_;
  Connection* const connection_;
  OpeningAnswer* const answer_;

  ReplyHandler replies_ ABSL_GUARDED_BY(channel_loop);
  Receipts receipts_ ABSL_GUARDED_BY(channel_loop);
  bool welcome_seen_ ABSL_GUARDED_BY(channel_loop) = false;
  bool lost_ ABSL_GUARDED_BY(channel_loop) = false;
  // The memory of the lost session can be read, over this connection and the next.
  bool memory_kept_ ABSL_GUARDED_BY(channel_loop) = false;
  Welcomed welcomed_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_FRAMES_SESSION_LOOP_H_
