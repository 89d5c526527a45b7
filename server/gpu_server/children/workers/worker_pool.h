// Warm workers: processes that have opened their device and wait for a session.
//
// Opening a device takes a GPU's driver long (creating a context alone takes 0.1 to 0.3 s, and
// seconds when several do it at a time). So it is done ahead, one process at a time, after the
// session that took the last worker has opened.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_POOL_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/log/log_budget.h"
#include "server/gpu_server/children/workers/worker.h"
#include "server/gpu_server/children/workers/worker_process.h"
#include "server/hostlink/process/child_process.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"
#include "server/jail/jailer.h"

namespace warpline::server {

struct WorkerPoolOptions {
  ProcessLauncher* launcher = ChildLauncher();  // Borrowed.
  // Borrowed, and outliving the pool's workers. Null for no jail, in tests.
  jail::Jailer* jailer = nullptr;
  ChildOptions program;
  // The number of workers that wait for each device.
  int warm = 0;
  // The pause between attempts to start a worker when it fails. It begins at the first value and
  // doubles up to the last.
  absl::Duration first_backoff = absl::Seconds(1);
  absl::Duration last_backoff = absl::Seconds(60);
  // Called when a worker that waited, and was ended, is gone. Null for nobody.
  std::function<void()> waiting_gone = nullptr;
};

// Call Stop() before destroying it.
class WorkerPool {
 public:
  // The loops and `deaths` are borrowed.
  WorkerPool(EventLoop* control, EventLoop* spawner, DeathWatch* deaths, WorkerPoolOptions options);

  // Takes a worker for a session, and sends its events to `events` (borrowed, see WorkerProcess).
  // It is a warm one when there is one, otherwise one that was just started; for several devices,
  // and in MPS groups, none waits: with its context a worker has its daemon.
  std::shared_ptr<WorkerProcess> Take(const WorkerDevice& device, WorkerEvents* events)
      RUNS_ON(control_loop);
  // Takes back a worker that nothing of a session has reached.
  void GiveBack(const WorkerDevice& wanted, std::shared_ptr<WorkerProcess> worker)
      RUNS_ON(control_loop);
  // Starts the workers that are missing. Called when a session has opened, and once at the start.
  void Refill(const WorkerDevice& wanted) RUNS_ON(control_loop);
  // Ends the waiting workers, which run an older program, and starts others.
  void Renew() RUNS_ON(control_loop);

  // Ends the workers that wait for a device, since others need its memory. Refill() starts others.
  // False when there are none.
  bool EndWaiting(int ordinal) RUNS_ON(control_loop);
  // Whether workers that waited for a device were ended and are not gone yet.
  bool leaving(int ordinal) const RUNS_ON(control_loop);

  // Starts no more workers, ends those that wait, and calls `stopped` when they are gone.
  void Stop(std::function<void()> stopped) RUNS_ON(control_loop);

  int waiting() const RUNS_ON(control_loop);

 private:
  class Entry;
  struct Device {
    std::vector<std::shared_ptr<Entry>> entries;
    absl::Duration backoff = absl::ZeroDuration();
    bool complained = false;
    EventLoop::Token timer = 0;
  };

  std::shared_ptr<WorkerProcess> Start(const WorkerDevice& device, WorkerEvents* events)
      RUNS_ON(control_loop);
  void EndAll(Device* device) RUNS_ON(control_loop);
  void OnReady(Entry* entry) RUNS_ON(control_loop);
  void OnFailed(Entry* entry, const std::string& why) RUNS_ON(control_loop);
  void OnGone(Entry* entry) RUNS_ON(control_loop);

  EventLoop* const control_;
  EventLoop* const spawner_;
  DeathWatch* const deaths_;
  const WorkerPoolOptions options_;
  std::map<int, Device> devices_ ABSL_GUARDED_BY(control_loop);  // By ordinal.
  // The workers that were ended and are not yet reaped.
  std::vector<std::shared_ptr<Entry>> leaving_ ABSL_GUARDED_BY(control_loop);
  bool stopping_ ABSL_GUARDED_BY(control_loop) = false;
  // The number of the program from which workers are started; Renew() counts it up.
  uint64_t generation_ ABSL_GUARDED_BY(control_loop) = 1;
  std::function<void()> stopped_ ABSL_GUARDED_BY(control_loop);
  LogBudget log_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_POOL_H_
