// Suspends an idle session. Its memory moves to the host, and its worker saves what no other could
// make again. Then the worker ends, with the context and all that the session has on the device.
// Another worker takes over once the client wants something, or on request.
//
// Paging is the first half of it. A session that is suspended is one whose memory is away, and
// Paging brings both back.
#ifndef WARPLINE_SERVER_GPU_SERVER_CONTINUITY_SUSPENSION_H_
#define WARPLINE_SERVER_GPU_SERVER_CONTINUITY_SUSPENSION_H_

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"
#include "server/gpu_server/continuity/paging.h"
#include "server/gpu_server/continuity/replacement.h"
#include "server/gpu_server/continuity/variable_saver.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

class Suspension {
 public:
  using Done = std::function<void(absl::Status)>;
  // The parts of its session that it needs. The functions are called on the control loop.
  struct Parts {
    Paging* paging = nullptr;
    VariableSaver* saver = nullptr;
    std::function<SessionStanding()> standing;
    // Ends the worker. OnWorkerGone() follows, maybe from within.
    std::function<void()> end_worker;
  };

  explicit Suspension(Parts parts) : parts_(std::move(parts)) {}
  Suspension(const Suspension&) = delete;
  Suspension& operator=(const Suspension&) = delete;

  // Suspends an open session, which has to come to rest within `deadline`. `done` is called with OK
  // once the worker is gone. After an error the session keeps its worker, and its memory may be
  // away. FAILED_PRECONDITION says what it has that would be lost, or that it is being suspended
  // already. ABORTED says that its client wanted something meanwhile. Others are those of
  // Paging::Out().
  void Begin(absl::Duration deadline, Done done) RUNS_ON(control_loop);
  // Returns true from Begin() until its `done` was called.
  bool under_way() const RUNS_ON(control_loop) { return done_ != nullptr; }
  // The worker that was ended is gone. Does nothing when none was.
  void OnWorkerGone() RUNS_ON(control_loop);
  // Another server has suspended the session, and its worker saved this.
  void SetVariables(UniqueFd variables) RUNS_ON(control_loop) { variables_ = std::move(variables); }
  // Returns what the worker saved for the next one; no file where it had nothing to save.
  UniqueFd TakeVariables() RUNS_ON(control_loop) { return std::move(variables_); }
  // Returns the same without taking it; -1 where there is none.
  int variables_fd() const RUNS_ON(control_loop) { return variables_.get(); }
  // The session ends, fails, or goes on: tells `status` to the caller of Begin(), if it waits.
  void Forget(const absl::Status& status) RUNS_ON(control_loop);

 private:
  void OnAway() RUNS_ON(control_loop);
  void EndWorker() RUNS_ON(control_loop);

  const Parts parts_;
  Done done_ ABSL_GUARDED_BY(control_loop);
  bool saving_ ABSL_GUARDED_BY(control_loop) = false;
  UniqueFd variables_ ABSL_GUARDED_BY(control_loop);
  // Raised by Forget(), so that an answer that comes later is ignored.
  int round_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CONTINUITY_SUSPENSION_H_
