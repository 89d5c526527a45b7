// Has a session's worker save its module variables, which the next worker gets.
#ifndef WARPLINE_SERVER_GPU_SERVER_CONTINUITY_VARIABLE_SAVER_H_
#define WARPLINE_SERVER_GPU_SERVER_CONTINUITY_VARIABLE_SAVER_H_

#include <cstdint>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/workers/worker_link.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/timers.h"

namespace warpline::server {

class VariableSaver {
 public:
  using Saved = std::function<void(absl::StatusOr<UniqueFd>)>;

  // Both are borrowed. The worker has `timeout` to save them.
  VariableSaver(Timers* timers, WorkerLink* worker, absl::Duration timeout)
      : timers_(timers), worker_(worker), timeout_(timeout) {}
  VariableSaver(const VariableSaver&) = delete;
  VariableSaver& operator=(const VariableSaver&) = delete;

  // Asks the worker, which must be at rest. `saved` is called once, maybe before this returns, with
  // the file that holds them: FAILED_PRECONDITION when they cannot be saved, or are being saved
  // already, DEADLINE_EXCEEDED after the timeout.
  void Save(Saved saved) RUNS_ON(control_loop);
  // Nobody wants the answer any more: `saved` is not called.
  void Forget() RUNS_ON(control_loop);
  // An answer that is not waited for is ignored.
  void OnSaved(const warpline_internal::VariablesSaved& saved) RUNS_ON(control_loop);

 private:
  void Finish(absl::StatusOr<UniqueFd> result) RUNS_ON(control_loop);

  Timers* const timers_;
  WorkerLink* const worker_;
  const absl::Duration timeout_;
  Saved saved_ ABSL_GUARDED_BY(control_loop);
  uint64_t last_id_ ABSL_GUARDED_BY(control_loop) = 0;
  UniqueFd file_ ABSL_GUARDED_BY(control_loop);
  Timers::Token timer_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CONTINUITY_VARIABLE_SAVER_H_
