// A session's worker, whichever process that is at the moment: its rings and journal, which outlive
// it, and the way of messages between it and the session's parts.
#ifndef WARPLINE_SERVER_SESSION_SESSION_WORKER_H_
#define WARPLINE_SERVER_SESSION_SESSION_WORKER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/unique_fd.h"
#include "proto/worker.pb.h"
#include "server/continuity/worker_place.h"
#include "server/handover/journal_file.h"
#include "server/handover/session_usage.h"
#include "server/handover/worker_rings.h"
#include "server/process/event_loop.h"
#include "server/session/connection/session_port.h"
#include "server/session/session_holdings.h"
#include "server/session/session_lines.h"
#include "server/session/session_modules.h"
#include "server/workers/worker_link.h"
#include "server/workers/worker_pool.h"
#include "server/workers/worker_process.h"

namespace warpline::server {

// What becomes of a session's worker. Called on the control loop.
class SessionWorkerEvents {
 public:
  virtual ~SessionWorkerEvents() = default;
  // Once for each worker; `opened` may carry an error.
  virtual void OnWorkerOpened(const warpline_internal::WorkerOpened& opened) = 0;
  virtual void OnVariablesSaved(const warpline_internal::VariablesSaved& saved) = 0;
  // It died, or the session cannot go on with it; `why` is for logs and the client.
  virtual void OnWorkerLost(const std::string& why) = 0;
  // It lives but breaks the protocol.
  virtual void OnWorkerDistrusted(const std::string& why) = 0;
  // The process is gone and so are its mappings.
  virtual void OnWorkerGone() = 0;
};

// Runs on the control loop.
class SessionWorker : public WorkerLink, public WorkerPlace, private WorkerEvents {
 public:
  // All are borrowed, but for the port.
  struct Parts {
    EventLoop* doorbell = nullptr;
    WorkerPool* pool = nullptr;
    std::shared_ptr<SessionPort> port;
    SessionLines* lines = nullptr;
    // Where its messages go.
    SessionHoldings* holdings = nullptr;
    SessionModules* modules = nullptr;
    SessionWorkerEvents* events = nullptr;
  };

  explicit SessionWorker(const Parts& parts) : parts_(parts) {}

  // Takes a worker, which opens the session as `open` says. RESOURCE_EXHAUSTED when the system has
  // no descriptors or memory left. Called once.
  absl::Status Start(WorkerDevice device, warpline_internal::OpenWorker open, uint64_t ring_bytes);
  // The session is open: commands and replies pass from now on, and a worker that is lost may be
  // followed by another.
  void Connect();
  // The session has failed: no other worker follows, and this one is ended.
  void Abandon();
  // Ends the worker, or gives it back to the pool if nothing of the session has reached it.
  void LetGo();
  // The worker is gone, and the session with it.
  void End();
  // Has the pool start a worker for the next session.
  void Refill();
  // A worker that maps what the session holds, to be read, and executes nothing. From now on
  // messages go to it; its events go to `events` (borrowed).
  std::shared_ptr<WorkerProcess> TakeReader(WorkerEvents* events);

  // Of the last worker that opened; 0 for none.
  int pid() const { return pid_; }
  // What the journal says. 0 and nothing before Start().
  uint32_t journal_flags() const { return journal_ == nullptr ? 0 : journal_->flags(); }
  SessionUsage usage() const { return journal_ == nullptr ? SessionUsage() : journal_->usage(); }

  // WorkerLink. A worker that is dying counts as there while another may follow.
  absl::Status Send(const warpline_internal::ToWorker& message, absl::Span<const int> fds) override;

  // WorkerPlace. Not before Start(), but for gone() and Kill().
  uint64_t Freeze() override { return rings_->Freeze(); }
  uint64_t Retired() const override { return journal_->retired_seq(); }
  void Thaw() override;
  std::optional<uint64_t> Taken() override { return rings_->TakenSeq(); }
  void Kill() override;
  bool gone() const override { return gone_; }
  absl::Status TakeNext(uint64_t resume_seq, int variables_fd) override;

 private:
  // WorkerEvents.
  void OnWorkerPrepared(const warpline_internal::WorkerOpened& prepared) override;
  void OnWorkerOpened(const warpline_internal::WorkerOpened& opened) override;
  void OnMemoryDone(const warpline_internal::MemoryDone& done) override;
  void OnHostDone(const warpline_internal::MemoryDone& done) override;
  void OnVariablesSaved(const warpline_internal::VariablesSaved& saved) override;
  void OnCharge(const warpline_internal::ChargeMemory& charge) override;
  void OnUncharge(const warpline_internal::UnchargeMemory& uncharge) override;
  void OnFindModule(const warpline_internal::FindModule& find) override;
  void OnKeepModule(const warpline_internal::KeepModule& keep, UniqueFd image) override;
  void OnWorkerDied(const std::string& why) override;
  void OnWorkerGone() override;

  void Take(warpline_internal::OpenWorker open, int variables_fd);
  // What a part says of one of the worker's messages.
  void Judge(const absl::Status& status);
  void WatchDoorbell();
  void UnwatchDoorbell();

  const Parts parts_;
  WorkerDevice device_;
  warpline_internal::OpenWorker open_;  // As each worker of the session gets it, at first.
  std::shared_ptr<WorkerRings> rings_;
  std::unique_ptr<JournalFile> journal_;
  std::shared_ptr<WorkerProcess> worker_;
  std::shared_ptr<WorkerProcess> reader_;
  bool gone_ = true;
  bool opened_ = false;     // It has said so, whatever with.
  bool connected_ = false;  // Until the session fails or ends.
  int pid_ = 0;
  // Whose doorbell is watched.
  std::shared_ptr<RingPair> watched_;
  // Of the doorbell loop, once it is there.
  std::shared_ptr<std::array<EventLoop::Token, 2>> doorbell_watches_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_SESSION_SESSION_WORKER_H_
