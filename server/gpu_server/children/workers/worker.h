// A session's worker as the session sees it: what executes its commands, in a process of its own
// (WorkerProcess) or in one that hosts many sessions (GuardedSession).
//
//   worker->Open(open, rings, files);
//   ...                               // OnWorkerOpened() comes.
//   worker->Send(map, fds);           // OnMemoryDone() comes.
//   worker->Kill();                   // OnWorkerGone() comes, and nothing else.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/mps_groups/mps_groups.h"
#include "server/gpu_server/children/workers/host_window.h"
#include "server/gpu_server/children/workers/recovery.h"
#include "server/hostlink/handover/worker_rings.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

// A device as workers open it, or several devices.
struct WorkerDevice {
  std::string backend;
  int ordinal = 0;
  std::vector<int> more_ordinals = {};
  // The worker's place in the MPS group of its session; null for none.
  std::shared_ptr<MpsMembership> mps = nullptr;

  bool several() const { return !more_ordinals.empty(); }
};

// Receives what becomes of a worker.
class WorkerEvents {
 public:
  virtual ~WorkerEvents() = default;
  // The device is open, or `prepared` says with what error it could not be opened. Does not come
  // for a worker whose device was open before.
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
  // The worker's process is about to be killed for a reason that is not this session's. What comes
  // to rest before, or is moved to another worker, goes on; OnWorkerDied() follows in a moment
  // unless Kill() is called.
  virtual void OnWorkerLeaving() RUNS_ON(control_loop) {}
  // The worker cannot be used any more; `why` is for logs and the client. The process may still be
  // on its way out.
  virtual void OnWorkerDied(const std::string& why) RUNS_ON(control_loop) = 0;
  // The session was killed, and its work does not end; OnWorkerGone() follows in a while.
  virtual void OnWorkerHangs() RUNS_ON(control_loop) {}
  // The last call: nothing is left of the session in the process, nor are its mappings.
  // OnWorkerDied() came before, unless Kill() was called.
  virtual void OnWorkerGone() RUNS_ON(control_loop) = 0;
};

// What the workers of a session get beside its rings; borrowed descriptors, -1 for what there is
// not.
struct SessionFiles {
  int journal = -1;
  int board = -1;
  int variables = -1;
  int compiler = -1;
  int dispatch = -1;
};

// Kill() or OnWorkerDied(), and then OnWorkerGone(), must come before it is destroyed. Only one in
// a process of many sessions has host windows.
class Worker : public HostWindowSource {
 public:
  // Gives the worker its session, with the descriptors of `rings` (null for a reader) and `files`,
  // once. A worker whose device is not open yet gets them when it is; the files stay open until
  // OnWorkerOpened() or OnWorkerGone(). What cannot be sent comes as OnWorkerDied().
  virtual void Open(warpline_internal::OpenWorker open, std::shared_ptr<WorkerRings> rings,
                    const SessionFiles& files) RUNS_ON(control_loop) = 0;

  // Sends a message of the session with descriptors (borrowed). Callers keep one answer at a time
  // under way, which bounds what waits for the worker. UNAVAILABLE when the worker is dying or was
  // killed; RESOURCE_EXHAUSTED when the system has no descriptors left, or the session has too much
  // under way; INVALID_ARGUMENT when the message is beyond the bounds of packets.
  virtual absl::Status Send(warpline_internal::ToWorker message, absl::Span<const int> fds)
      RUNS_ON(control_loop) = 0;

  // Ends what the worker does for the session. OnWorkerGone() follows, and no other event
  // but OnWorkerHangs().
  virtual void Kill() RUNS_ON(control_loop) = 0;

  // Of its process; 0 when there is none.
  virtual pid_t pid() const RUNS_ON(control_loop) = 0;

  // The session's part in what becomes of those of its process, once that is leaving or has died.
  // Null before, and where the process is the session's own.
  virtual std::unique_ptr<RecoveryShare> JoinRecovery() RUNS_ON(control_loop) { return nullptr; }
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_WORKER_H_
