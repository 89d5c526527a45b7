// The standby of one device's guarded worker: one more process, which has opened its device and has
// no session. When the current process is lost its sessions go on there, without waiting for the
// next one to open its context (on an H100 0.9 s).
//
//   standby.Want();                     // The current process serves sessions.
//   ...
//   auto next = standby.TakeOver(lost); // Null where there is none.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_GUARDED_STANDBY_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_GUARDED_STANDBY_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/log/log_budget.h"
#include "server/gpu_server/children/workers/guarded_worker.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/timers.h"

namespace warpline::server {

struct GuardedStandbyOptions {
  bool kept = false;
  // Between the moment when one is wanted and its start, so that the sessions that have just been
  // taken over do not share the driver with it.
  absl::Duration pause = absl::Seconds(2);
  // For how long none is started after one that was lost. It begins at the first value and doubles
  // up to the last, until one has opened its device.
  absl::Duration first_backoff = absl::Seconds(10);
  absl::Duration last_backoff = absl::Minutes(10);
};

// Call End() before destroying it.
class GuardedStandby {
 public:
  // Starts a process; null where none is wanted any more.
  using Start = std::function<std::shared_ptr<GuardedWorker>()>;

  // Timers and `log` (of kGuardedLines) are borrowed.
  GuardedStandby(Timers* timers, LogBudget* log, int ordinal, GuardedStandbyOptions options,
                 Start start);
  GuardedStandby(const GuardedStandby&) = delete;
  GuardedStandby& operator=(const GuardedStandby&) = delete;

  // The current process serves a session: a standby is started in a moment, unless there is one or
  // the last one was lost a short while ago.
  void Want() RUNS_ON(control_loop);
  // The process that takes the place of `former`, which is the caller's from now on. It may still
  // be opening its device. Null where there is none.
  std::shared_ptr<GuardedWorker> TakeOver(const GuardedWorker& former) RUNS_ON(control_loop);
  // Ends it, and starts none before Want() is called again.
  void End() RUNS_ON(control_loop);

  // What a process does. False where it is not the standby.
  bool OnPrepared(const GuardedWorker& process) RUNS_ON(control_loop);
  bool OnUnusable(const GuardedWorker& process, const std::string& why) RUNS_ON(control_loop);

 private:
  bool Is(const GuardedWorker& process) const RUNS_ON(control_loop) {
    return process_.get() == &process;
  }

  Timers* const timers_;
  LogBudget* const log_;
  const int ordinal_;
  const GuardedStandbyOptions options_;
  const Start start_;
  std::shared_ptr<GuardedWorker> process_ ABSL_GUARDED_BY(control_loop);  // Null for none.
  absl::Time ready_since_ ABSL_GUARDED_BY(control_loop);
  // Runs until one is started, or may be started again.
  Timers::Token timer_ ABSL_GUARDED_BY(control_loop) = 0;
  absl::Duration backoff_ ABSL_GUARDED_BY(control_loop) = absl::ZeroDuration();
  bool complained_ ABSL_GUARDED_BY(control_loop) = false;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_GUARDED_STANDBY_H_
