// A worker process that hosts the guarded sessions of many tenants, in one context of one device.
//
// It parses what tenants send and runs nothing of theirs but hardened kernels, so it is trusted
// with more than an isolated worker: it says itself when a session is over. But nothing that it
// does for one session may hold up the server or reach another session. What it does not take at
// once waits (PacketBacklog); what it says of a session that it does not have is its end.
//
// A session's work that does not end is ended with the process: the process leaves. It gets no new
// sessions, those that it has come to rest or move to another process for a moment, and then it is
// killed. So it is with one that does not answer.
#ifndef WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_GUARDED_WORKER_H_
#define WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_GUARDED_WORKER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/log/log_budget.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/workers/host_window.h"
#include "server/gpu_server/children/workers/host_windows.h"
#include "server/gpu_server/children/workers/packet_backlog.h"
#include "server/gpu_server/children/workers/recovery.h"
#include "server/gpu_server/children/workers/worker.h"
#include "server/gpu_server/children/workers/worker_child.h"
#include "server/hostlink/handover/worker_rings.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/death_watch.h"
#include "server/hostlink/process/event_loop.h"
#include "server/hostlink/process/timers.h"

namespace warpline::server {

struct GuardedWorkerOptions {
  // Sessions of one process, those that are ending included.
  size_t max_sessions = 128;
  // For the process to open its device.
  absl::Duration prepare_timeout = absl::Seconds(60);
  // For the process to take what waits for it.
  absl::Duration stuck_timeout = absl::Seconds(10);
  // For the process to end a session. It says itself when the session's work does not end.
  absl::Duration close_timeout = absl::Seconds(40);
  // For the other sessions of a process that leaves.
  absl::Duration drain = absl::Seconds(1);
  HostWindowsOptions windows;
};

// What is logged of them.
enum GuardedLine : size_t {
  kGuardedDiedLine,
  kGuardedLeavesLine,
  kGuardedRecoveryLine,
  kGuardedStandbyLine,
  kGuardedTakesOverLine,
  kGuardedNoStandbyLine,
  kGuardedContextLine,
  kGuardedWindowsLine,
  kNoGuardedWindowLine,
  kGuardedLineCount
};
inline constexpr LogKind kGuardedLines[kGuardedLineCount] = {
    {"guarded_workers_died", 10, absl::Minutes(1)},
    {"guarded_workers_replaced", 10, absl::Minutes(1)},
    {"guarded_recoveries", 10, absl::Minutes(1)},
    {"guarded_standbys_ready", 10, absl::Minutes(1)},
    {"guarded_standbys_taking_over", 10, absl::Minutes(1)},
    {"no_guarded_standbys", 10, absl::Minutes(1)},
    {"guarded_contexts", 10, absl::Minutes(1)},
    {"guarded_windows", 10, absl::Minutes(1)},
    {"no_guarded_window", 10, absl::Minutes(1)}};

class GuardedWorker;
class GuardedSession;

// Receives what becomes of such a process.
class GuardedWorkerEvents {
 public:
  virtual ~GuardedWorkerEvents() = default;
  // Its device is open.
  virtual void OnPrepared(GuardedWorker* process) RUNS_ON(control_loop) = 0;
  // It takes no new sessions any more, and this was not asked of it. Once, before its sessions are
  // told.
  virtual void OnUnusable(GuardedWorker* process, const std::string& why) RUNS_ON(control_loop) = 0;
  // The last call: the process is gone and all its sessions know.
  virtual void OnGone(GuardedWorker* process) RUNS_ON(control_loop) = 0;
};

// Shared by its owner, which keeps it until OnGone(), its sessions, and callbacks under way.
class GuardedWorker : public std::enable_shared_from_this<GuardedWorker>,
                      private WorkerChildEvents {
 public:
  // As WorkerChild. All are borrowed.
  struct Parts {
    EventLoop* control = nullptr;
    EventLoop* spawner = nullptr;
    DeathWatch* deaths = nullptr;
    Timers* timers = nullptr;  // Called on the control loop.
    LogBudget* log = nullptr;  // Of kGuardedLines.
  };

  // `events` are borrowed until OnGone().
  GuardedWorker(const Parts& parts, const GuardedWorkerOptions& options,
                GuardedWorkerEvents* events);

  // Starts the program. `start.prepare` names one device.
  void Start(WorkerStart start) RUNS_ON(control_loop);

  // Whether its device is open.
  bool prepared() const RUNS_ON(control_loop) { return child_->prepared(); }
  // Whether it takes new sessions: it is not dying, leaving or retired.
  bool usable() const RUNS_ON(control_loop) { return usable_ && child_->alive(); }
  bool full() const RUNS_ON(control_loop) { return sessions_.size() >= options_.max_sessions; }
  size_t sessions() const RUNS_ON(control_loop) { return sessions_.size(); }
  // Adds a session, whose events go to `events` (borrowed until OnWorkerGone()). REQUIRES: usable()
  // and not full().
  std::shared_ptr<Worker> Take(WorkerEvents* events) RUNS_ON(control_loop);

  // Takes no more sessions, and ends when the last one has left.
  void Retire() RUNS_ON(control_loop);
  // Ends the process.
  void Kill() RUNS_ON(control_loop);

  pid_t pid() const RUNS_ON(control_loop) { return child_->pid(); }
  // Of its device.
  int ordinal() const RUNS_ON(control_loop) { return ordinal_; }

 private:
  friend class GuardedSession;

  // WorkerChildEvents.
  void OnPrepared(const warpline_internal::WorkerOpened& prepared) override RUNS_ON(control_loop);
  bool OnMessage(const warpline_internal::FromWorker& message, std::vector<UniqueFd> fds) override
      RUNS_ON(control_loop);
  void OnDied(const std::string& why) override RUNS_ON(control_loop);
  void OnGone() override RUNS_ON(control_loop);

  // --- For sessions.
  // The process knows the session as `id` from now on. False when it has that number already.
  bool Enter(uint64_t id, GuardedSession* session) RUNS_ON(control_loop);
  absl::Status Send(warpline_internal::ToWorker message, absl::Span<const int> fds)
      RUNS_ON(control_loop);
  // Has the process end a session of which it has heard, or that it is about to hear of.
  void Close(const std::shared_ptr<GuardedSession>& session) RUNS_ON(control_loop);
  // Nothing of the session is in the process: it is over, and its owner hears so. EndSoon() does
  // that once its caller has returned.
  void End(const std::shared_ptr<GuardedSession>& session) RUNS_ON(control_loop);
  void EndSoon(std::shared_ptr<GuardedSession> session) RUNS_ON(control_loop);
  // The work of a session does not end.
  void OnHangs(const std::shared_ptr<GuardedSession>& session) RUNS_ON(control_loop);
  // See HostWindowSource; nothing where no window is free, which the log says.
  std::optional<HostWindow> TakeWindow(uint64_t session) RUNS_ON(control_loop);
  std::optional<HostWindow> BringWindow(const HostWindow& former) RUNS_ON(control_loop);
  // The process breaks the protocol. Always false.
  bool Broken(const std::string& why) RUNS_ON(control_loop);
  std::unique_ptr<RecoveryShare> JoinRecovery() RUNS_ON(control_loop) {
    return recovery_ == nullptr ? nullptr : recovery_->Join();
  }

  void StartWindows() RUNS_ON(control_loop);
  bool OnWindowDone(const warpline_internal::WindowDone& done) RUNS_ON(control_loop);
  // `hung` is the session because of which it does.
  void Leave(uint64_t hung) RUNS_ON(control_loop);
  // It takes no new sessions any more.
  void Unusable(const std::string& why) RUNS_ON(control_loop);
  void BeginRecovery() RUNS_ON(control_loop);
  // Ends a process that has nobody left to wait for.
  void MaybeKill() RUNS_ON(control_loop);
  void WatchBacklog() RUNS_ON(control_loop);
  void FlushBacklog() RUNS_ON(control_loop);
  void SetTimer(Timers::Token* timer, absl::Duration delay, void (GuardedWorker::*body)())
      RUNS_ON(control_loop);
  void ClearTimers() RUNS_ON(control_loop);
  void OnNotPrepared() RUNS_ON(control_loop) { child_->Died("it did not open its device in time"); }
  void OnStuck() RUNS_ON(control_loop) { child_->Died("it takes no messages"); }

  EventLoop* const control_;
  Timers* const timers_;
  LogBudget* const log_;
  const GuardedWorkerOptions options_;
  GuardedWorkerEvents* const events_;
  const std::shared_ptr<WorkerChild> child_;
  PacketBacklog backlog_ ABSL_GUARDED_BY(control_loop);
  HostWindows windows_ ABSL_GUARDED_BY(control_loop);
  // The sessions that have not heard OnWorkerGone().
  std::vector<std::shared_ptr<GuardedSession>> sessions_ ABSL_GUARDED_BY(control_loop);
  // Those of them that the process knows, or is to know, by their numbers.
  absl::flat_hash_map<uint64_t, GuardedSession*> by_id_ ABSL_GUARDED_BY(control_loop);
  bool usable_ ABSL_GUARDED_BY(control_loop) = true;
  bool leaving_ ABSL_GUARDED_BY(control_loop) = false;
  int ordinal_ ABSL_GUARDED_BY(control_loop) = 0;
  std::string why_ ABSL_GUARDED_BY(control_loop) = "it ended";  // For sessions that lose it.
  // Of its sessions, from the moment when it is lost until it is gone.
  std::shared_ptr<Recovery> recovery_ ABSL_GUARDED_BY(control_loop);
  Timers::Token prepare_timer_ ABSL_GUARDED_BY(control_loop) = 0;
  Timers::Token drain_timer_ ABSL_GUARDED_BY(control_loop) = 0;
  Timers::Token stuck_timer_ ABSL_GUARDED_BY(control_loop) = 0;
  Timers::Token retry_timer_ ABSL_GUARDED_BY(control_loop) = 0;
};

// One session of such a process, as the worker that its owner sees.
class GuardedSession : public Worker, public std::enable_shared_from_this<GuardedSession> {
 public:
  GuardedSession(std::shared_ptr<GuardedWorker> process, WorkerEvents* events)
      : process_(std::move(process)), events_(events) {}

  // Worker. Kill() has the process end the session; see GuardedWorkerOptions for when it does not.
  void Open(warpline_internal::OpenWorker open, std::shared_ptr<WorkerRings> rings,
            const SessionFiles& files) override RUNS_ON(control_loop);
  absl::Status Send(warpline_internal::ToWorker message, absl::Span<const int> fds) override
      RUNS_ON(control_loop);
  void Kill() override RUNS_ON(control_loop);
  std::optional<HostWindow> TakeWindow() override RUNS_ON(control_loop);
  std::optional<HostWindow> BringWindow(const HostWindow& former) override RUNS_ON(control_loop);
  pid_t pid() const override RUNS_ON(control_loop) {
    return process_ == nullptr ? 0 : process_->pid();
  }
  std::unique_ptr<RecoveryShare> JoinRecovery() override RUNS_ON(control_loop) {
    return process_ == nullptr ? nullptr : process_->JoinRecovery();
  }

 private:
  friend class GuardedWorker;

  enum class State {
    kWaiting,  // Nothing was said of the session.
    kOpen,
    kClosing,  // SessionClosed is due.
    kHung,     // It ends with the process.
    kGone,
  };

  void OnPrepared(const warpline_internal::WorkerOpened& prepared) RUNS_ON(control_loop);
  bool OnMessage(const warpline_internal::FromWorker& message, std::vector<UniqueFd> fds)
      RUNS_ON(control_loop);
  void OnLeaving() RUNS_ON(control_loop);
  // The process has died.
  void OnDied(const std::string& why) RUNS_ON(control_loop);
  // The last one; `why` is for a session that did not know that it would come.
  void OnGone(const std::string& why) RUNS_ON(control_loop);

  void SendOpen(warpline_internal::OpenWorker open, const std::shared_ptr<WorkerRings>& rings,
                const SessionFiles& files) RUNS_ON(control_loop);
  // The session's owner hears of nothing more but of its end.
  bool quiet() const RUNS_ON(control_loop) { return killed_ || told_; }

  std::shared_ptr<GuardedWorker> process_ ABSL_GUARDED_BY(control_loop);  // Null when gone.
  WorkerEvents* const events_;
  State state_ ABSL_GUARDED_BY(control_loop) = State::kWaiting;
  uint64_t session_ ABSL_GUARDED_BY(control_loop) = 0;
  // The call of Open() that waits until the process is prepared.
  std::function<void()> pending_open_ ABSL_GUARDED_BY(control_loop);
  bool opened_due_ ABSL_GUARDED_BY(control_loop) = false;
  bool killed_ ABSL_GUARDED_BY(control_loop) = false;  // By Kill().
  bool told_ ABSL_GUARDED_BY(control_loop) = false;    // OnWorkerDied() was called.
  // Why the session is over, where that is known before it is out of the process.
  std::string why_ ABSL_GUARDED_BY(control_loop);
  Timers::Token close_timer_ ABSL_GUARDED_BY(control_loop) = 0;
  uint32_t window_ ABSL_GUARDED_BY(control_loop) = 0;  // Its number; 0 for none.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CHILDREN_WORKERS_GUARDED_WORKER_H_
