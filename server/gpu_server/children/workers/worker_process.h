// A worker process that has one session.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_PROCESS_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/workers/worker.h"
#include "server/gpu_server/children/workers/worker_child.h"
#include "server/hostlink/handover/worker_rings.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/death_watch.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {

// The process runs a tenant's work and is not trusted: what it sends takes a bounded part of each
// turn of the loop, and one that says what is not due has died for its owner. Shared between the
// pool, the session that takes it, and callbacks under way.
class WorkerProcess : public Worker, private WorkerChildEvents {
 public:
  // As WorkerChild. `events` is borrowed; events may come until OnWorkerGone().
  WorkerProcess(EventLoop* control, EventLoop* spawner, DeathWatch* deaths, WorkerEvents* events)
      : child_(std::make_shared<WorkerChild>(control, spawner, deaths,
                                             static_cast<WorkerChildEvents*>(this))),
        events_(events) {}

  // Starts the program, which opens the device. Failures come as OnWorkerDied().
  void Start(WorkerStart start) RUNS_ON(control_loop) { child_->Start(std::move(start)); }
  // The same in an MPS group, once that has its daemon, with which the worker ends. Where there is
  // none it starts without, unless it is promised a part of the multiprocessors.
  void StartIn(std::shared_ptr<MpsMembership> group, WorkerStart start) RUNS_ON(control_loop);

  // Sends the events to another receiver: a warm worker becomes that of a session. What came
  // before, such as OnWorkerPrepared(), does not come again.
  void Attach(WorkerEvents* events) RUNS_ON(control_loop) { events_ = events; }

  // Whether Open() was called but nothing of it has reached the worker, so that another session can
  // still use the worker. CancelOpen() takes the session back.
  bool untouched() const RUNS_ON(control_loop) { return pending_open_ && child_->alive(); }
  void CancelOpen() RUNS_ON(control_loop) { pending_open_ = nullptr; }
  // A number of the owner's choice that workers started alike share.
  void set_generation(uint64_t generation) RUNS_ON(control_loop) { generation_ = generation; }
  uint64_t generation() const RUNS_ON(control_loop) { return generation_; }
  // Whether it was started for an MPS group, which no other session can use.
  bool in_group() const RUNS_ON(control_loop) { return group_ != nullptr; }
  // The process of its group in which the driver counts what it does; 0 for none.
  pid_t mps_server() const RUNS_ON(control_loop) { return in_group() ? group_->server() : 0; }
  // Whether it has opened its device.
  bool prepared() const RUNS_ON(control_loop) { return child_->prepared(); }

  // Worker. Kill() ends the process.
  void Open(warpline_internal::OpenWorker open, std::shared_ptr<WorkerRings> rings,
            const SessionFiles& files) override RUNS_ON(control_loop);
  absl::Status Send(warpline_internal::ToWorker message, absl::Span<const int> fds) override
      RUNS_ON(control_loop);
  void Kill() override RUNS_ON(control_loop) { child_->Kill(); }
  pid_t pid() const override RUNS_ON(control_loop) { return child_->pid(); }

 private:
  // WorkerChildEvents.
  void OnPrepared(const warpline_internal::WorkerOpened& prepared) override RUNS_ON(control_loop);
  bool OnMessage(const warpline_internal::FromWorker& message, std::vector<UniqueFd> fds) override
      RUNS_ON(control_loop);
  void OnDied(const std::string& why) override RUNS_ON(control_loop) { events_->OnWorkerDied(why); }
  void OnGone() override RUNS_ON(control_loop);

  // Always false.
  bool Died(const std::string& why) RUNS_ON(control_loop);

  const std::shared_ptr<WorkerChild> child_;
  WorkerEvents* events_ ABSL_GUARDED_BY(control_loop);
  std::shared_ptr<MpsMembership> group_ ABSL_GUARDED_BY(control_loop);  // Until it is gone.
  // The call of Open() that waits until the worker is prepared.
  std::function<void()> pending_open_ ABSL_GUARDED_BY(control_loop);
  uint64_t session_ ABSL_GUARDED_BY(control_loop) = 0;  // The session for which it was opened.
  uint64_t generation_ ABSL_GUARDED_BY(control_loop) = 0;
  bool opened_due_ ABSL_GUARDED_BY(control_loop) = false;  // Once for each Open().
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_PROCESS_H_
