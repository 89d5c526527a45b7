// Warm workers: processes that have opened their device and wait for a session.
//
// Opening a device takes a GPU's driver long (context creation alone 0.1 to 0.3 s, and seconds when
// several do it at a time), so it is done ahead, one process at a time, after the session that took
// the last one is open.
#ifndef WARPLINE_SERVER_WORKERS_WORKER_POOL_H_
#define WARPLINE_SERVER_WORKERS_WORKER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/log/log_budget.h"
#include "server/process/child_process.h"
#include "server/process/event_loop.h"
#include "server/workers/worker_process.h"

namespace warpline::server {

struct WorkerPoolOptions {
  ProcessLauncher* launcher = ChildLauncher();  // Borrowed.
  ChildOptions program;
  // Workers that wait, for each device.
  int warm = 0;
  // Between attempts to start one that does not start; doubles up to the other.
  absl::Duration first_backoff = absl::Seconds(1);
  absl::Duration last_backoff = absl::Seconds(60);
};

// A device as workers open it, or several: no worker waits for those.
struct WorkerDevice {
  std::string backend;
  int ordinal = 0;
  std::vector<int> more_ordinals = {};

  bool several() const { return !more_ordinals.empty(); }
};

// Runs on the control loop. Stop() comes before its end.
class WorkerPool {
 public:
  // Loops and `deaths` are borrowed.
  WorkerPool(EventLoop* control, EventLoop* spawner, DeathWatch* deaths, WorkerPoolOptions options);

  // A worker for a session, with its events going to `events` (borrowed, see WorkerProcess): a warm
  // one where there is one, otherwise one that was just started.
  std::shared_ptr<WorkerProcess> Take(const WorkerDevice& device, WorkerEvents* events);
  // Takes back a worker that nothing of a session has reached.
  void GiveBack(const WorkerDevice& device, std::shared_ptr<WorkerProcess> worker);
  // Starts what is missing. Called when a session is open, and once at the start.
  void Refill(const WorkerDevice& device);
  // Waiting workers are of an older program: ends them and starts others.
  void Renew();

  // Starts none any more, ends those that wait, and calls `stopped` when they are gone.
  void Stop(std::function<void()> stopped);

  int waiting() const;

 private:
  class Entry;
  struct Device {
    std::vector<std::shared_ptr<Entry>> entries;
    absl::Duration backoff = absl::ZeroDuration();
    bool complained = false;
    EventLoop::Token timer = 0;
  };

  std::shared_ptr<WorkerProcess> Start(const WorkerDevice& device, WorkerEvents* events);
  void OnReady(Entry* entry);
  void OnFailed(Entry* entry, const std::string& why);
  void OnGone(Entry* entry);

  EventLoop* const control_;
  EventLoop* const spawner_;
  DeathWatch* const deaths_;
  const WorkerPoolOptions options_;
  std::map<int, Device> devices_;  // By ordinal.
  // Ended, and not yet reaped.
  std::vector<std::shared_ptr<Entry>> leaving_;
  bool stopping_ = false;
  // Of the program that workers are started from; another after Renew().
  uint64_t generation_ = 1;
  std::function<void()> stopped_;
  LogBudget log_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_WORKERS_WORKER_POOL_H_
