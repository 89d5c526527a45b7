// The server's end of one session's worker process: its life and its control socket.
#ifndef WARPLINE_SERVER_WORKERS_WORKER_PROCESS_H_
#define WARPLINE_SERVER_WORKERS_WORKER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/handover/worker_rings.h"
#include "server/jail/jailer.h"
#include "server/process/control_loop.h"
#include "server/process/death_watch.h"
#include "server/process/event_loop.h"
#include "server/process/life_line.h"
#include "server/process/running_process.h"

namespace warpline::server {

// Receives what becomes of a worker.
class WorkerEvents {
 public:
  virtual ~WorkerEvents() = default;
  // The device is open, or `prepared` says with what error it could not be opened.
  virtual void OnWorkerPrepared(const warpline_internal::WorkerOpened&) RUNS_ON(control_loop) {}
  virtual void OnWorkerOpened(const warpline_internal::WorkerOpened&) RUNS_ON(control_loop) {}
  virtual void OnMemoryDone(const warpline_internal::MemoryDone&) RUNS_ON(control_loop) {}
  virtual void OnHostDone(const warpline_internal::MemoryDone&) RUNS_ON(control_loop) {}
  virtual void OnReadDone(const warpline_internal::MemoryDone&) RUNS_ON(control_loop) {}
  virtual void OnVariablesSaved(const warpline_internal::VariablesSaved&) RUNS_ON(control_loop) {}
  // The worker asks for memory outside the arena, or has given some back.
  virtual void OnCharge(const warpline_internal::ChargeMemory&) RUNS_ON(control_loop) {}
  virtual void OnUncharge(const warpline_internal::UnchargeMemory&) RUNS_ON(control_loop) {}
  virtual void OnFindModule(const warpline_internal::FindModule&) RUNS_ON(control_loop) {}
  virtual void OnKeepModule(const warpline_internal::KeepModule&, UniqueFd) RUNS_ON(control_loop) {}
  virtual void OnModuleLoaded(const warpline_internal::ModuleLoaded&) RUNS_ON(control_loop) {}
  // The worker cannot be used any more; `why` is for logs and the client. The process may still be
  // on its way out.
  virtual void OnWorkerDied(const std::string& why) RUNS_ON(control_loop) = 0;
  // The last call: the process and its mappings are gone. OnWorkerDied() came before, unless Kill()
  // was called.
  virtual void OnWorkerGone() RUNS_ON(control_loop) = 0;
};

// How a worker is started.
struct WorkerStart {
  ProcessLauncher* launcher = nullptr;  // Borrowed.
  ChildOptions program = {};
  warpline_internal::PrepareWorker prepare = {};  // Without its jail.
  // Borrowed, and outliving the process. Null for no jail, in tests.
  jail::Jailer* jailer = nullptr;
};

// What the workers of a session get beside its rings; borrowed descriptors, -1 for what there is
// not.
struct SessionFiles {
  int journal = -1;
  int board = -1;
  int variables = -1;
  int compiler = -1;
};

// Kill() and OnWorkerGone() must come before it is destroyed. The process runs a tenant's work and
// is not trusted: what it sends takes a bounded part of each turn of the loop, and one that says
// what is not due has died for its owner.
class WorkerProcess : public std::enable_shared_from_this<WorkerProcess> {
 public:
  // `control` is the control loop; `spawner` is the loop on which processes are started.
  // Loops, `deaths` and `events` are borrowed; events may come until OnWorkerGone().
  WorkerProcess(EventLoop* control, EventLoop* spawner, DeathWatch* deaths, WorkerEvents* events)
      : control_(control), spawner_(spawner), deaths_(deaths), events_(events) {}

  // Starts the program, which opens the device. Failures come as OnWorkerDied().
  void Start(WorkerStart start) RUNS_ON(control_loop);

  // Sends the events to another receiver: a warm worker becomes that of a session. What came
  // before, such as OnWorkerPrepared(), does not come again.
  void Attach(WorkerEvents* events) RUNS_ON(control_loop) { events_ = events; }

  // Gives the worker its session, with the descriptors of `rings` (null for a reader) and `files`.
  // A worker that has not started yet gets them when it has opened its device.
  void Open(warpline_internal::OpenWorker open, std::shared_ptr<WorkerRings> rings,
            const SessionFiles& files) RUNS_ON(control_loop);

  // Whether Open() was called but nothing of it has reached the worker, so that another session can
  // still use the worker. CancelOpen() takes the session back.
  bool untouched() const RUNS_ON(control_loop) {
    return pending_open_ && !dying_ && !killed_ && !gone_;
  }
  void CancelOpen() RUNS_ON(control_loop) { pending_open_ = nullptr; }
  // A number of the owner's choice that workers started alike share.
  void set_generation(uint64_t generation) RUNS_ON(control_loop) { generation_ = generation; }
  uint64_t generation() const RUNS_ON(control_loop) { return generation_; }
  // Whether it has opened its device.
  bool prepared() const RUNS_ON(control_loop) { return prepared_; }

  // Sends a message with descriptors (borrowed). Callers keep one answer at a time under way, which
  // bounds what lies in the socket.
  absl::Status Send(warpline_internal::ToWorker message, absl::Span<const int> fds)
      RUNS_ON(control_loop);

  // Ends the process. OnWorkerGone() follows.
  void Kill() RUNS_ON(control_loop);

  pid_t pid() const RUNS_ON(control_loop) { return process_ == nullptr ? 0 : process_->pid(); }

 private:
  struct Spawned {
    absl::StatusOr<std::unique_ptr<RunningProcess>> process;
    UniqueFd socket;
    warpline_internal::PrepareWorker prepare;
    std::unique_ptr<jail::Cell> cell;
  };
  // Starts the process, on the spawner's loop.
  static Spawned Spawn(const WorkerStart& start);
  void OnSpawned(Spawned spawned) RUNS_ON(control_loop);
  void SendOrDie(const warpline_internal::ToWorker& message, absl::Span<const int> fds)
      RUNS_ON(control_loop);
  // Sends the first message, with a life line for the process to hold.
  void Prepare(const warpline_internal::PrepareWorker& prepare) RUNS_ON(control_loop);
  void OnPacket() RUNS_ON(control_loop);
  void OnPrepared(const warpline_internal::WorkerOpened& prepared) RUNS_ON(control_loop);
  void OnLifeEnded() RUNS_ON(control_loop);
  void OnExit() RUNS_ON(control_loop);
  void Died(const std::string& why) RUNS_ON(control_loop);
  void ReportDeath() RUNS_ON(control_loop);
  void Gone() RUNS_ON(control_loop);

  EventLoop* const control_;
  EventLoop* const spawner_;
  DeathWatch* const deaths_;
  WorkerEvents* events_ ABSL_GUARDED_BY(control_loop);
  // The call of Open() that waits until the worker is prepared.
  std::function<void()> pending_open_ ABSL_GUARDED_BY(control_loop);
  std::unique_ptr<RunningProcess> process_ ABSL_GUARDED_BY(control_loop);
  // Its place in the server's jail; null for none.
  std::unique_ptr<jail::Cell> cell_ ABSL_GUARDED_BY(control_loop);
  UniqueFd socket_ ABSL_GUARDED_BY(control_loop);
  EventLoop::Token socket_watch_ ABSL_GUARDED_BY(control_loop) = 0;
  EventLoop::Token exit_watch_ ABSL_GUARDED_BY(control_loop) = 0;
  EventLoop::Token report_timer_ ABSL_GUARDED_BY(control_loop) = 0;
  DeathWatch::Token life_watch_ ABSL_GUARDED_BY(control_loop) = 0;
  uint64_t session_ ABSL_GUARDED_BY(control_loop) = 0;  // The session for which it was opened.
  uint64_t generation_ ABSL_GUARDED_BY(control_loop) = 0;
  bool said_prepared_ ABSL_GUARDED_BY(control_loop) = false;  // Whatever with.
  bool prepared_ ABSL_GUARDED_BY(control_loop) = false;
  bool opened_due_ ABSL_GUARDED_BY(control_loop) = false;  // Once for each Open().
  bool killed_ ABSL_GUARDED_BY(control_loop) = false;
  bool dying_ ABSL_GUARDED_BY(control_loop) = false;
  bool reported_ ABSL_GUARDED_BY(control_loop) = false;
  bool gone_ ABSL_GUARDED_BY(control_loop) = false;
  std::string why_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_WORKERS_WORKER_PROCESS_H_
