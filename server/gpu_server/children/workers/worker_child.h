// The server's end of a process that executes sessions' commands, whichever sessions these are: its
// start, its jail, its control socket, its death.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_CHILD_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_CHILD_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/mps_groups/mps_groups.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/death_watch.h"
#include "server/hostlink/process/event_loop.h"
#include "server/hostlink/process/running_process.h"
#include "server/jail/jailer.h"

namespace warpline::server {

// How a worker is started.
struct WorkerStart {
  ProcessLauncher* launcher = nullptr;  // Borrowed.
  ChildOptions program = {};
  warpline_internal::PrepareWorker prepare = {};  // Without its jail.
  // Borrowed, and outliving the process. Null for no jail, in tests.
  jail::Jailer* jailer = nullptr;
  // Of a worker in an MPS group, which is added to the program's environment and the jail.
  std::optional<MpsTerms> mps = std::nullopt;
};

// Receives what becomes of a process.
class WorkerChildEvents {
 public:
  virtual ~WorkerChildEvents() = default;
  // The device is open, or `prepared` says with what error it could not be opened. Once.
  virtual void OnPrepared(const warpline_internal::WorkerOpened& prepared)
      RUNS_ON(control_loop) = 0;
  // Any other message, with its descriptors. False when the process's turn ends with it.
  virtual bool OnMessage(const warpline_internal::FromWorker& message, std::vector<UniqueFd> fds)
      RUNS_ON(control_loop) = 0;
  // It cannot be used any more. It may still be on its way out.
  virtual void OnDied(const std::string& why) RUNS_ON(control_loop) = 0;
  // The last call: the process and its mappings are gone. OnDied() came before, unless Kill() was
  // called.
  virtual void OnGone() RUNS_ON(control_loop) = 0;
};

// Shared, since its start may be under way when its owner has let go of it. It takes a bounded part
// of each turn of the loop, whatever the process sends.
class WorkerChild : public std::enable_shared_from_this<WorkerChild> {
 public:
  // `control` is the control loop; `spawner` is the loop on which processes are started.
  // Loops, `deaths` and `events` are borrowed; events may come until OnGone().
  WorkerChild(EventLoop* control, EventLoop* spawner, DeathWatch* deaths, WorkerChildEvents* events)
      : control_(control), spawner_(spawner), deaths_(deaths), events_(events) {}

  // Starts the program, which opens the device. Failures come as OnDied().
  void Start(WorkerStart start) RUNS_ON(control_loop);
  // Instead: it cannot be started. OnDied() and OnGone() come at once.
  void Refuse(const std::string& why) RUNS_ON(control_loop);

  // Whether it has opened its device.
  bool prepared() const RUNS_ON(control_loop) { return prepared_; }
  // Neither dying nor killed, as far as is known.
  bool alive() const RUNS_ON(control_loop) { return !dying_ && !killed_ && !gone_; }

  // Sends a message with descriptors (borrowed). UNAVAILABLE when there is no process, it is dying,
  // or its socket is full; otherwise the errors of SendPacket().
  absl::Status Send(const warpline_internal::ToWorker& message, absl::Span<const int> fds)
      RUNS_ON(control_loop);
  // The same, but returns false when the socket is full.
  absl::StatusOr<bool> TrySend(const warpline_internal::ToWorker& message,
                               absl::Span<const int> fds) RUNS_ON(control_loop);

  // The process is of no use: ends it, and OnDied() comes. An empty `why` means that the process
  // ends by itself; how will be known soon.
  void Died(const std::string& why) RUNS_ON(control_loop);
  // Ends the process. OnGone() follows.
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
  // Sends the first message, with a liveness lock for the process to hold.
  void Prepare(const warpline_internal::PrepareWorker& prepare) RUNS_ON(control_loop);
  void OnPacket() RUNS_ON(control_loop);
  void OnPrepared(const warpline_internal::WorkerOpened& prepared) RUNS_ON(control_loop);
  void OnLifeEnded() RUNS_ON(control_loop);
  void OnExit() RUNS_ON(control_loop);
  void ReportDeath() RUNS_ON(control_loop);
  void Gone() RUNS_ON(control_loop);

  EventLoop* const control_;
  EventLoop* const spawner_;
  DeathWatch* const deaths_;
  WorkerChildEvents* const events_;
  std::unique_ptr<RunningProcess> process_ ABSL_GUARDED_BY(control_loop);
  // Its place in the server's jail; null for none.
  std::unique_ptr<jail::Cell> cell_ ABSL_GUARDED_BY(control_loop);
  UniqueFd socket_ ABSL_GUARDED_BY(control_loop);
  EventLoop::Token socket_watch_ ABSL_GUARDED_BY(control_loop) = 0;
  EventLoop::Token exit_watch_ ABSL_GUARDED_BY(control_loop) = 0;
  EventLoop::Token report_timer_ ABSL_GUARDED_BY(control_loop) = 0;
  DeathWatch::Token life_watch_ ABSL_GUARDED_BY(control_loop) = 0;
  bool said_prepared_ ABSL_GUARDED_BY(control_loop) = false;  // Whatever with.
  bool prepared_ ABSL_GUARDED_BY(control_loop) = false;
  bool killed_ ABSL_GUARDED_BY(control_loop) = false;
  bool dying_ ABSL_GUARDED_BY(control_loop) = false;
  bool reported_ ABSL_GUARDED_BY(control_loop) = false;
  bool gone_ ABSL_GUARDED_BY(control_loop) = false;
  std::string why_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_CHILD_H_
