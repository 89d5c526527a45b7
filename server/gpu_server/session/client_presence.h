// Whether a session's client is there, will never be there again, and how often it came back.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_CLIENT_PRESENCE_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_CLIENT_PRESENCE_H_

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/gpu_server/session/connection/client_life.h"
#include "server/gpu_server/session/session_lines.h"
#include "server/gpu_server/session/session_snapshot.h"
#include "server/hostlink/handover/counters.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {

// A connection ends with the process of its client, unless another process has inherited it. What
// the client sent last is still read for so long.
inline constexpr absl::Duration kLastWords = absl::Seconds(1);

// Call End() before destroying it.
class ClientPresence {
 public:
  using GiveUp = std::function<void(const std::string& reason)>;

  // All are borrowed. `given_up` is told once when the client does not come back, or is no more. It
  // may still have a connection then.
  ClientPresence(EventLoop* control, SessionLines* lines, ServerCounters* counters, GiveUp given_up)
      : control_(control),
        lines_(lines),
        counters_(counters),
        given_up_(std::move(given_up)),
        life_(control) {}

  // The client is there. It may lose its connection and come back within `patience`, if that is not
  // zero.
  void Begin(ClientProcess client, absl::Duration patience) RUNS_ON(control_loop);
  // Whether it can, after such an end of its connection: it was lost, or given up for another that
  // was lost in turn.
  bool CanReturnAfter(const absl::Status& status) const RUNS_ON(control_loop);
  // Its connection ended so; see CanReturnAfter().
  void Leave(const absl::Status& status) RUNS_ON(control_loop);
  // It is there again: on a connection that it `moved` to, or after it had lost one.
  void Return(bool moved) RUNS_ON(control_loop);
  // Nobody waits for it any more.
  void End() RUNS_ON(control_loop);

  bool away() const RUNS_ON(control_loop) { return away_timer_ != 0; }
  // The client is away, or known to be no more.
  bool missing() const RUNS_ON(control_loop) { return away() || gone(); }
  // Known to be no more, whether or not it has a connection.
  bool gone() const RUNS_ON(control_loop) { return !why_gone_.empty(); }
  void Describe(ContinuitySnapshot* snapshot) const RUNS_ON(control_loop);

 private:
  void OnProcessEnded() RUNS_ON(control_loop);
  void StopTimers() RUNS_ON(control_loop);
  void GiveUpNow(const std::string& reason) RUNS_ON(control_loop);
  void GiveUpAfter(absl::Duration delay, EventLoop::Token* timer, const std::string& reason)
      RUNS_ON(control_loop);

  EventLoop* const control_;
  SessionLines* const lines_;
  ServerCounters* const counters_;
  const GiveUp given_up_;
  ClientLife life_ ABSL_GUARDED_BY(control_loop);
  ClientProcess client_ ABSL_GUARDED_BY(control_loop);
  absl::Duration patience_ ABSL_GUARDED_BY(control_loop) = absl::ZeroDuration();
  std::string why_gone_ ABSL_GUARDED_BY(control_loop);
  EventLoop::Token away_timer_ ABSL_GUARDED_BY(control_loop) = 0;
  EventLoop::Token last_words_timer_ ABSL_GUARDED_BY(control_loop) = 0;
  uint64_t resumes_ ABSL_GUARDED_BY(control_loop) = 0;
  uint64_t transfers_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_CLIENT_PRESENCE_H_
