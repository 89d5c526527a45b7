// Brings a session's worker to rest for one reason after another: to replace the worker, or to move
// the memory that it has mapped. Whatever needs the worker at rest asks here.
//
//   rest.Begin(Rest::Reason::kPaging, absl::Seconds(2), [&](const absl::Status& rested) {
//     if (!rested.ok()) return;   // It goes on as before.
//     <act: nothing is in flight, and nothing comes>
//     rest.Release();
//   });
#ifndef WARPLINE_SERVER_GPU_SERVER_CONTINUITY_REST_H_
#define WARPLINE_SERVER_GPU_SERVER_CONTINUITY_REST_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/gpu_server/continuity/worker_place.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/timers.h"

namespace warpline::server {

class Rest {
 public:
  enum class Reason { kReplacement, kPaging };
  using Rested = std::function<void(const absl::Status&)>;

  // Both are borrowed.
  Rest(Timers* timers, CommandGate* gate) : timers_(timers), gate_(gate) {}
  Rest(const Rest&) = delete;
  Rest& operator=(const Rest&) = delete;

  // Freezes the gate, and calls `rested` once, maybe before it returns. OK when all that went
  // through is complete: the gate then stays frozen until Release(). DEADLINE_EXCEEDED when it is
  // not by then, or when another reason has it until then. `wanted`, which may be null, is called
  // when another reason waits for this one's Release(). FAILED_PRECONDITION for a reason that waits
  // or has it already.
  void Begin(Reason reason, absl::Duration deadline, Rested rested,
             std::function<void()> wanted = nullptr) RUNS_ON(control_loop);
  // Ends the first reason's turn: the next reason has the worker at rest, or the gate opens.
  void Release() RUNS_ON(control_loop);
  // The reason does not want it any more, and its `rested` is not called. The gate stays as it is
  // unless another reason waits: the session is at its end, or another worker takes over.
  void Forget(Reason reason) RUNS_ON(control_loop);
  // Forgets all reasons: the session is at its end, or its worker is.
  void ForgetAll() RUNS_ON(control_loop);

  // The reason for which the worker is at rest; none where it is not.
  std::optional<Reason> reason() const RUNS_ON(control_loop);

 private:
  struct Turn {
    Reason reason;
    Rested rested;  // Null once it was called.
    std::function<void()> wanted;
    Timers::Token deadline = 0;
  };

  // Returns true if the first turn has the worker at rest.
  bool held() const RUNS_ON(control_loop) { return !turns_.empty() && !turns_.front().rested; }
  void Look() RUNS_ON(control_loop);
  void OnDeadline(Reason reason) RUNS_ON(control_loop);
  // Ends the first turn, and begins the next one.
  void Next() RUNS_ON(control_loop);
  void StopPolling() RUNS_ON(control_loop);

  Timers* const timers_;
  CommandGate* const gate_;
  std::deque<Turn> turns_ ABSL_GUARDED_BY(control_loop);
  Timers::Token poll_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CONTINUITY_REST_H_
