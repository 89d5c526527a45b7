// Brings a session's worker to rest, so that something can be done that needs it at rest: replacing
// it, copying out what it holds, taking its device away.
//
//   quiescer.Begin(absl::Seconds(2), [&](const absl::Status& rested) {
//     if (!rested.ok()) return;   // It goes on as before.
//     <act: nothing is in flight, and nothing comes>
//     quiescer.Release();
//   });
#ifndef WARPLINE_SERVER_GPU_SERVER_CONTINUITY_QUIESCER_H_
#define WARPLINE_SERVER_GPU_SERVER_CONTINUITY_QUIESCER_H_

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/gpu_server/continuity/worker_place.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/timers.h"

namespace warpline::server {

class Quiescer {
 public:
  using Rested = std::function<void(const absl::Status&)>;

  // Both are borrowed.
  Quiescer(Timers* timers, CommandGate* gate) : timers_(timers), gate_(gate) {}
  Quiescer(const Quiescer&) = delete;
  Quiescer& operator=(const Quiescer&) = delete;

  // Freezes the gate, and calls `rested` once, maybe before it returns. OK when all that went
  // through is complete: the gate then stays frozen until Release(). DEADLINE_EXCEEDED when it is
  // not by then: the gate is open again. Not while one is under way or not released.
  void Begin(absl::Duration deadline, Rested rested) RUNS_ON(control_loop);
  // What was to be done at rest is done.
  void Release() RUNS_ON(control_loop);
  // Nobody wants it to rest any more, and `rested` is not called. The gate stays as it is, which is
  // for who has it now: the session is at its end, or another worker takes over.
  void Forget() RUNS_ON(control_loop);

  // From Begin() until `rested` is called or nobody wants it.
  bool under_way() const RUNS_ON(control_loop) { return rested_ != nullptr; }

 private:
  void Look(bool last) RUNS_ON(control_loop);
  void Finish(const absl::Status& status) RUNS_ON(control_loop);

  Timers* const timers_;
  CommandGate* const gate_;
  Rested rested_ ABSL_GUARDED_BY(control_loop);
  Timers::Token poll_ ABSL_GUARDED_BY(control_loop) = 0;
  Timers::Token deadline_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CONTINUITY_QUIESCER_H_
