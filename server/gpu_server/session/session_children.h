// The processes that a server has for its sessions: workers, guarded workers, compilers, MPS
// daemons and relays; and the loops that start them and wait for them.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_CHILDREN_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_CHILDREN_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "memory/quota.h"
#include "server/gpu_server/children/compilers/compiler_pool.h"
#include "server/gpu_server/children/mps_groups/mps_groups.h"
#include "server/gpu_server/children/relays/relay_process.h"
#include "server/gpu_server/children/workers/context_measure.h"
#include "server/gpu_server/children/workers/guarded_workers.h"
#include "server/gpu_server/children/workers/hang_book.h"
#include "server/gpu_server/children/workers/worker_pool.h"
#include "server/gpu_server/session/session_options.h"
#include "server/hostlink/process/child_process.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/death_watch.h"
#include "server/hostlink/process/event_loop.h"
#include "server/jail/jailer.h"

namespace warpline::server {

// The launcher and the jailer are borrowed, and outlive the children.
struct SessionChildrenOptions {
  ProcessLauncher* launcher = ChildLauncher();  // Starts workers.
  jail::Jailer* jailer = nullptr;               // Null for no jail of workers, in tests.
  // Null where no session may go on over UCX.
  std::unique_ptr<const RelayOptions> relays = nullptr;
  // Null where workers guard modules by themselves.
  std::unique_ptr<const CompilerOptions> compilers = nullptr;
  std::unique_ptr<const MpsOptions> mps = nullptr;  // Null for no groups.
};

// The pointers are valid as long as this object, and safe to take on any thread; each class says
// what may be called where. Call Stop() before destroying it.
class SessionChildren {
 public:
  // The host of the sessions answers about devices, and is told.
  struct Links {
    std::function<void(int ordinal, ContextMeasure::Answer)> read_others;
    std::function<uint64_t(int ordinal)> kept_bytes;
    // Called when a worker that waited, and was ended, is gone.
    std::function<void()> waiting_gone;
  };

  // `control` is borrowed. Guarded workers take what they lock of the host's memory from
  // `host_memory`.
  SessionChildren(EventLoop* control, SessionChildrenOptions options, const SessionOptions& session,
                  std::shared_ptr<Quota> host_memory, Links links);

  // Wakes channels that wait for replies of their workers.
  EventLoop* doorbell() { return &doorbell_; }
  EventLoop* spawner() { return &spawner_; }
  WorkerPool* workers() { return &workers_; }
  GuardedWorkers* guarded() { return &guarded_; }
  HangBook* hangs() { return &hangs_; }
  CompilerPool* compilers() const { return compilers_.get(); }
  MpsGroups* mps() const { return mps_.get(); }
  const RelayOptions* relays() const { return options_.relays.get(); }

  // Starts new workers of the programs that lie there now.
  void Renew() RUNS_ON(control_loop);
  // Ends all workers and daemons, calls `stopped` when they are gone, and then ends the compilers.
  void Stop(std::function<void()> stopped) RUNS_ON(control_loop);

 private:
  const SessionChildrenOptions options_;
  // Ended in reverse: what posts to a loop goes before it.
  EventLoop doorbell_{"doorbell"};
  EventLoop spawner_{"spawner"};
  DeathWatch deaths_;
  const std::unique_ptr<MpsGroups> mps_;
  WorkerPool workers_ ABSL_GUARDED_BY(control_loop);
  GuardedWorkers guarded_ ABSL_GUARDED_BY(control_loop);
  HangBook hangs_ ABSL_GUARDED_BY(control_loop);
  const std::unique_ptr<CompilerPool> compilers_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_CHILDREN_H_
