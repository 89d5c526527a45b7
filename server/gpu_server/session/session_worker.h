// A session's worker, whichever process that is at the moment: its rings, journal and board, which
// outlive it, and the way of messages between it and the session's parts.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_WORKER_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_WORKER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "proto/tier.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/compilers/compiler_pool.h"
#include "server/gpu_server/children/mps_groups/mps_groups.h"
#include "server/gpu_server/children/workers/host_window.h"
#include "server/gpu_server/children/workers/recovery.h"
#include "server/gpu_server/children/workers/worker.h"
#include "server/gpu_server/children/workers/worker_link.h"
#include "server/gpu_server/children/workers/worker_process.h"
#include "server/gpu_server/continuity/worker_place.h"
#include "server/gpu_server/dispatch/dispatch_registration.h"
#include "server/gpu_server/session/connection/session_port.h"
#include "server/gpu_server/session/session_children.h"
#include "server/gpu_server/session/session_holdings.h"
#include "server/gpu_server/session/session_lines.h"
#include "server/gpu_server/session/session_modules.h"
#include "server/hostlink/handover/journal_file.h"
#include "server/hostlink/handover/session_usage.h"
#include "server/hostlink/handover/worker_rings.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"
#include "transport/shm_board.h"

namespace warpline::server {

// What becomes of a session's worker.
class SessionWorkerEvents {
 public:
  virtual ~SessionWorkerEvents() = default;
  // Once for each worker; `opened` may carry an error.
  virtual void OnWorkerOpened(const warpline_internal::WorkerOpened& opened)
      RUNS_ON(control_loop) = 0;
  virtual void OnVariablesSaved(const warpline_internal::VariablesSaved& saved)
      RUNS_ON(control_loop) = 0;
  // It died, or the session cannot go on with it; `why` is for logs and the client.
  virtual void OnWorkerLost(const std::string& why) RUNS_ON(control_loop) = 0;
  // It is to be ended because of another session; see WorkerEvents. The gate is frozen.
  virtual void OnWorkerLeaving() RUNS_ON(control_loop) = 0;
  // It was ended, and its work on a shared device does not end.
  virtual void OnWorkerHangs() RUNS_ON(control_loop) = 0;
  // It lives but breaks the protocol.
  virtual void OnWorkerDistrusted(const std::string& why) RUNS_ON(control_loop) = 0;
  // The process is gone and so are its mappings.
  virtual void OnWorkerGone() RUNS_ON(control_loop) = 0;
};

class SessionWorker : public WorkerLink,
                      public WorkerPlace,
                      public HostWindowSource,
                      private WorkerEvents {
 public:
  // All are borrowed, but for the port.
  struct Parts {
    SessionChildren* children = nullptr;
    std::shared_ptr<SessionPort> port;
    SessionLines* lines = nullptr;
    // Where its messages go.
    SessionHoldings* holdings = nullptr;
    SessionModules* modules = nullptr;
    SessionWorkerEvents* events = nullptr;
  };

  explicit SessionWorker(const Parts& parts) : parts_(parts) {}

  // Whose compiler the session's workers have if they are to guard modules. Before Start().
  void SetTenant(std::string tenant) RUNS_ON(control_loop) { tenant_ = std::move(tenant); }
  // Its place in the dispatch of its devices; null where nothing is dispatched. Before Start().
  void SetDispatch(std::unique_ptr<dispatch::DispatchRegistration> registration)
      RUNS_ON(control_loop) {
    dispatch_ = std::move(registration);
  }
  // Sets whether its workers are processes of its own, or sessions of the device's guarded worker.
  // Before Start().
  void SetTier(Tier tier) RUNS_ON(control_loop) { tier_ = tier; }
  // Has its workers in an MPS group, where there are such. Not for sessions of several devices.
  // Before Start().
  void SetGroup(MpsGroupKey key, uint32_t sm_percent) RUNS_ON(control_loop) {
    group_ = std::move(key);
    sm_percent_ = sm_percent;
  }
  // Takes a worker, which opens the session as `open` says. RESOURCE_EXHAUSTED when the system has
  // no descriptors or memory left, or the device's guarded worker has no room. Called once.
  absl::Status Start(WorkerDevice device, warpline_internal::OpenWorker open, uint64_t ring_bytes)
      RUNS_ON(control_loop);
  // Goes on, without a worker, after `done` commands that a worker of another server completed;
  // that one had this journal, and so many workers had reported on the board. The next worker is
  // taken with TakeNext(). Errors are those of Start(). In place of Start().
  absl::Status StartWithout(WorkerDevice device, warpline_internal::OpenWorker open,
                            uint64_t ring_bytes, std::unique_ptr<JournalFile> journal,
                            uint64_t done, uint64_t board_generation) RUNS_ON(control_loop);
  // Return what another server needs for that. The descriptor is this object's.
  int journal_fd() const RUNS_ON(control_loop) { return journal_->fd(); }
  uint64_t board_generation() const RUNS_ON(control_loop) { return open_.board_generation(); }
  // WorkerRings::TryRead(). No channel may do so meanwhile.
  absl::StatusOr<bool> TakeReply(std::string* payload) RUNS_ON(control_loop) {
    return rings_->TryRead(payload);
  }
  // The session is open: commands and replies pass from now on, and a worker that is lost may be
  // followed by another.
  void Connect() RUNS_ON(control_loop);
  // The session has failed: no other worker follows, and this one is ended.
  void Abandon() RUNS_ON(control_loop);
  // Ends the worker, or gives it back to the pool if nothing of the session has reached it.
  void LetGo() RUNS_ON(control_loop);
  // The worker is gone, and the session with it.
  void End() RUNS_ON(control_loop);
  // Has the pool start a worker for the next session.
  void Refill() RUNS_ON(control_loop);
  // A worker that maps what the session holds, to be read, and executes nothing. From now on
  // messages go to it; its events go to `events` (borrowed).
  std::shared_ptr<Worker> TakeReader(WorkerEvents* events) RUNS_ON(control_loop);

  // Returns true if commands that were passed on are not complete. Not before Start().
  bool in_flight() const RUNS_ON(control_loop) {
    return rings_->FedSeq() > journal_->retired_seq();
  }
  // Of the last worker that opened; 0 for none.
  int pid() const RUNS_ON(control_loop) { return pid_; }
  // The completion board, which belongs to this object; -1 where the session has none.
  int board_fd() const RUNS_ON(control_loop) { return board_.get(); }
  // As Worker, of the one that is leaving or has died.
  std::unique_ptr<RecoveryShare> JoinRecovery() RUNS_ON(control_loop) {
    return worker_ == nullptr ? nullptr : worker_->JoinRecovery();
  }
  // Whether it is about to be ended because of another session.
  bool leaving() const RUNS_ON(control_loop) { return leaving_; }
  // What the journal says. 0 and nothing before Start().
  uint32_t journal_flags() const RUNS_ON(control_loop) {
    return journal_ == nullptr ? 0 : journal_->flags();
  }
  SessionUsage usage() const RUNS_ON(control_loop) {
    return journal_ == nullptr ? SessionUsage() : journal_->usage();
  }

  // What it has had of its devices' engines; nothing where nothing is dispatched.
  dispatch::DispatchUsage engine_usage() const RUNS_ON(control_loop) {
    return dispatch_ == nullptr ? dispatch::DispatchUsage() : dispatch_->usage();
  }

  // Has the session's kernels go at another pace, if there is a worker.
  void SetPace(uint32_t nap_us) RUNS_ON(control_loop);

  // WorkerLink. A worker that is dying counts as there while another may follow.
  absl::Status Send(const warpline_internal::ToWorker& message, absl::Span<const int> fds) override
      RUNS_ON(control_loop);

  // HostWindowSource, of the worker that is there.
  std::optional<HostWindow> TakeWindow() override RUNS_ON(control_loop) {
    return gone_ ? std::nullopt : worker_->TakeWindow();
  }
  std::optional<HostWindow> BringWindow(const HostWindow& former) override RUNS_ON(control_loop) {
    return gone_ ? std::nullopt : worker_->BringWindow(former);
  }

  // WorkerPlace. Not before Start(), but for gone() and Kill().
  uint64_t Freeze() override RUNS_ON(control_loop) { return rings_->Freeze(); }
  uint64_t Retired() const override RUNS_ON(control_loop) { return journal_->retired_seq(); }
  void Thaw() override RUNS_ON(control_loop);
  std::optional<uint64_t> Taken() override RUNS_ON(control_loop) { return rings_->TakenSeq(); }
  void Kill() override RUNS_ON(control_loop);
  bool gone() const override RUNS_ON(control_loop) { return gone_; }
  absl::Status TakeNext(uint64_t resume_seq, int variables_fd) override RUNS_ON(control_loop);

 private:
  // WorkerEvents.
  void OnWorkerPrepared(const warpline_internal::WorkerOpened& prepared) override
      RUNS_ON(control_loop);
  void OnWorkerOpened(const warpline_internal::WorkerOpened& opened) override RUNS_ON(control_loop);
  void OnWorkerHangs() override RUNS_ON(control_loop) { parts_.events->OnWorkerHangs(); }
  void OnMemoryDone(const warpline_internal::MemoryDone& done) override RUNS_ON(control_loop);
  void OnHostDone(const warpline_internal::MemoryDone& done) override RUNS_ON(control_loop);
  void OnVariablesSaved(const warpline_internal::VariablesSaved& saved) override
      RUNS_ON(control_loop);
  void OnCharge(const warpline_internal::ChargeMemory& charge) override RUNS_ON(control_loop);
  void OnUncharge(const warpline_internal::UnchargeMemory& uncharge) override RUNS_ON(control_loop);
  void OnFindModule(const warpline_internal::FindModule& find) override RUNS_ON(control_loop);
  void OnKeepModule(const warpline_internal::KeepModule& keep, UniqueFd image) override
      RUNS_ON(control_loop);
  void OnModuleLoaded(const warpline_internal::ModuleLoaded& loaded) override RUNS_ON(control_loop);
  void OnWorkerLeaving() override RUNS_ON(control_loop);
  void OnWorkerDied(const std::string& why) override RUNS_ON(control_loop);
  void OnWorkerGone() override RUNS_ON(control_loop);

  absl::Status Take(warpline_internal::OpenWorker open, int variables_fd) RUNS_ON(control_loop);
  absl::Status TakeWorker() RUNS_ON(control_loop);
  // What a part says of one of the worker's messages.
  void Judge(const absl::Status& status) RUNS_ON(control_loop);
  void WatchDoorbell() RUNS_ON(control_loop);
  void UnwatchDoorbell() RUNS_ON(control_loop);

  const Parts parts_;
  std::optional<MpsGroupKey> group_ ABSL_GUARDED_BY(control_loop);
  uint32_t sm_percent_ ABSL_GUARDED_BY(control_loop) = 100;
  WorkerDevice device_ ABSL_GUARDED_BY(control_loop);
  warpline_internal::OpenWorker open_
      ABSL_GUARDED_BY(control_loop);  // As each worker of the session gets it, at first.
  std::shared_ptr<WorkerRings> rings_ ABSL_GUARDED_BY(control_loop);
  // Shared with the window of the port, which may outlive this.
  std::shared_ptr<JournalFile> journal_ ABSL_GUARDED_BY(control_loop);
  UniqueFd board_ ABSL_GUARDED_BY(control_loop);
  std::unique_ptr<dispatch::DispatchRegistration> dispatch_ ABSL_GUARDED_BY(control_loop);
  std::string tenant_ ABSL_GUARDED_BY(control_loop);
  // The last worker's; nobody's for a session that is not guarded.
  CompilerConnection compiler_ ABSL_GUARDED_BY(control_loop);
  Tier tier_ ABSL_GUARDED_BY(control_loop) = Tier::kIsolated;
  std::shared_ptr<Worker> worker_ ABSL_GUARDED_BY(control_loop);
  // The same, where it is the pool's.
  std::shared_ptr<WorkerProcess> pooled_ ABSL_GUARDED_BY(control_loop);
  std::shared_ptr<Worker> reader_ ABSL_GUARDED_BY(control_loop);
  bool gone_ ABSL_GUARDED_BY(control_loop) = true;
  bool opened_ ABSL_GUARDED_BY(control_loop) = false;     // It has said so, whatever with.
  bool connected_ ABSL_GUARDED_BY(control_loop) = false;  // Until the session fails or ends.
  // The worker is about to be ended, and nothing more goes to it.
  bool leaving_ ABSL_GUARDED_BY(control_loop) = false;
  int pid_ ABSL_GUARDED_BY(control_loop) = 0;
  // Whose doorbell is watched.
  std::shared_ptr<RingPair> watched_ ABSL_GUARDED_BY(control_loop);
  // Of the doorbell loop, once it is there.
  std::shared_ptr<std::array<EventLoop::Token, 2>> doorbell_watches_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_WORKER_H_
