// The guarded workers of a server: one current process for each device, which hosts the sessions of
// the guarded tier there.
//
//   auto worker = guarded.Take(device, events);  // A session of the current process.
//   if (!worker.ok()) return worker.status();
//   (*worker)->Open(open, rings, files);
//
// It is started when the first session of the tier comes, and kept while it lives. A process that
// leaves (GuardedWorker) or dies is followed by its standby at once (GuardedStandby), and without
// one by another when the next session comes, or one of its own goes on.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_GUARDED_WORKERS_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_GUARDED_WORKERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/log/log_budget.h"
#include "server/gpu_server/children/workers/context_measure.h"
#include "server/gpu_server/children/workers/guarded_standby.h"
#include "server/gpu_server/children/workers/guarded_worker.h"
#include "server/gpu_server/children/workers/worker.h"
#include "server/hostlink/process/child_process.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/death_watch.h"
#include "server/hostlink/process/event_loop.h"
#include "server/hostlink/process/timers.h"
#include "server/jail/jailer.h"

namespace warpline::server {

struct GuardedWorkersOptions {
  ProcessLauncher* launcher = ChildLauncher();  // Borrowed.
  // Borrowed, and outliving the processes. Null for no jail, in tests.
  jail::Jailer* jailer = nullptr;
  ChildOptions program;
  GuardedWorkerOptions process;
  GuardedStandbyOptions standby;
  // Borrowed. Null for those of the control loop; tests have some that they advance.
  Timers* timers = nullptr;
  // ContextMeasure::Read of a device, and what is kept of that for each process. Null for none.
  std::function<void(int ordinal, ContextMeasure::Answer)> read_others;
  std::function<uint64_t(int ordinal)> kept_bytes;
};

// Call Stop() before destroying it.
class GuardedWorkers : private GuardedWorkerEvents {
 public:
  // The loops and `deaths` are borrowed.
  GuardedWorkers(EventLoop* control, EventLoop* spawner, DeathWatch* deaths,
                 GuardedWorkersOptions options);

  // Takes a worker for a session; its events go to `events` (borrowed until OnWorkerGone()).
  // RESOURCE_EXHAUSTED when the device's process has as many sessions as it takes, INVALID_ARGUMENT
  // for several devices, UNAVAILABLE after Stop().
  absl::StatusOr<std::shared_ptr<Worker>> Take(const WorkerDevice& wanted, WorkerEvents* events)
      RUNS_ON(control_loop);
  // Gives new sessions to processes of the program that lies there now. Those that run end when
  // their last session has left.
  void Renew() RUNS_ON(control_loop);
  // Starts no more processes, ends those that there are, and calls `stopped` when they are gone.
  void Stop(std::function<void()> stopped) RUNS_ON(control_loop);

 private:
  struct Device {
    std::shared_ptr<GuardedWorker> current;  // Null for none.
    std::unique_ptr<GuardedStandby> standby;
  };

  // GuardedWorkerEvents.
  void OnPrepared(GuardedWorker* process) override RUNS_ON(control_loop);
  void OnUnusable(GuardedWorker* process, const std::string& why) override RUNS_ON(control_loop);
  void OnGone(GuardedWorker* process) override RUNS_ON(control_loop);

  Device& DeviceOf(const WorkerDevice& wanted) RUNS_ON(control_loop);
  std::shared_ptr<GuardedWorker> Start(const WorkerDevice& device) RUNS_ON(control_loop);
  // Says in the log what a process has taken of its device.
  void SayContext(const GuardedWorker& process, uint64_t bytes) RUNS_ON(control_loop);
  // Whether the device's current process serves sessions.
  static bool InUse(const Device& device) RUNS_ON(control_loop);

  const GuardedWorkersOptions options_;
  LogBudget log_ ABSL_GUARDED_BY(control_loop);
  const GuardedWorker::Parts parts_;
  std::map<int, Device> devices_ ABSL_GUARDED_BY(control_loop);  // By ordinal.
  // All that are not gone.
  std::vector<std::shared_ptr<GuardedWorker>> processes_ ABSL_GUARDED_BY(control_loop);
  // Of those that are not gone, where devices say what is free.
  std::map<const GuardedWorker*, std::shared_ptr<ContextMeasure>> measures_
      ABSL_GUARDED_BY(control_loop);
  bool stopping_ ABSL_GUARDED_BY(control_loop) = false;
  std::function<void()> stopped_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_GUARDED_WORKERS_H_
