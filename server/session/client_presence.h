// Whether a session's client is there, and how often it came back.
#ifndef WARPLINE_SERVER_SESSION_CLIENT_PRESENCE_H_
#define WARPLINE_SERVER_SESSION_CLIENT_PRESENCE_H_

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/handover/counters.h"
#include "server/process/control_loop.h"
#include "server/process/event_loop.h"
#include "server/session/connection/client_absence.h"
#include "server/session/session_lines.h"
#include "server/session/session_snapshot.h"

namespace warpline::server {

// Not destroyed while its client is away.
class ClientPresence {
 public:
  // All are borrowed. `given_up` is told when a client does not come back.
  ClientPresence(EventLoop* control, SessionLines* lines, ServerCounters* counters,
                 ClientAbsence::GiveUp given_up)
      : lines_(lines), counters_(counters), given_up_(std::move(given_up)), absence_(control) {}

  // The client may lose its connection and come back within `patience`.
  void MayReturn(ClientProcess client, absl::Duration patience) RUNS_ON(control_loop);
  // Whether it can, after such an end of its connection: it was lost, or given up for another that
  // was lost in turn.
  bool CanReturnAfter(const absl::Status& status) const RUNS_ON(control_loop);
  // Its connection ended so; see CanReturnAfter().
  void Leave(const absl::Status& status) RUNS_ON(control_loop);
  // It is there again: on a connection that it `moved` to, or after it had lost one.
  void Return(bool moved) RUNS_ON(control_loop);
  // Nobody waits for it any more.
  void End() RUNS_ON(control_loop) { absence_.End(); }

  bool away() const RUNS_ON(control_loop) { return absence_.under_way(); }
  void Describe(ContinuitySnapshot* snapshot) const RUNS_ON(control_loop);

 private:
  SessionLines* const lines_;
  ServerCounters* const counters_;
  const ClientAbsence::GiveUp given_up_;
  ClientAbsence absence_ ABSL_GUARDED_BY(control_loop);
  ClientProcess client_ ABSL_GUARDED_BY(control_loop);
  absl::Duration patience_ ABSL_GUARDED_BY(control_loop) = absl::ZeroDuration();
  uint64_t resumes_ ABSL_GUARDED_BY(control_loop) = 0;
  uint64_t transfers_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_SESSION_CLIENT_PRESENCE_H_
