// One client's session on the control side: its hello, its life, its end.
//
// clang-format off
//   waiting   --hello-->                            opening
//   opening   --worker opened-->                    open
//   open      --worker died, nothing in flight-->   replacing
//   open      --worker died, work in flight-->      faulted
//   open      --worker ended to free the device-->  suspended
//   suspended --client wants something-->           replacing
//   replacing --another worker took over-->         open
//   replacing --none could-->                       faulted
//   any       --channel closed, protocol error-->   ending
//   ending    --worker gone-->                      ended
// clang-format on
//
// An open or faulted session whose connection is lost waits, detached, for its client to resume.
//
// The session decides; what it decides about are its parts: SessionWorker and SessionHoldings,
// which other workers take over (server/gpu_server/continuity/), SessionClient and ClientPresence.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/cuda/cuda_result.h"
#include "common/niceness.h"
#include "common/unique_fd.h"
#include "lease/end_reason.h"
#include "lease/entitlement.h"
#include "server/gpu_server/audit/session_audit.h"
#include "server/gpu_server/children/workers/recovery.h"
#include "server/gpu_server/continuity/idle_watch.h"
#include "server/gpu_server/continuity/paging.h"
#include "server/gpu_server/continuity/replacement.h"
#include "server/gpu_server/continuity/residency.h"
#include "server/gpu_server/continuity/rest.h"
#include "server/gpu_server/continuity/suspension.h"
#include "server/gpu_server/continuity/takeover.h"
#include "server/gpu_server/continuity/variable_saver.h"
#include "server/gpu_server/dispatch/dispatcher.h"
#include "server/gpu_server/dispatch/kill_verdict.h"
#include "server/gpu_server/leases/lease_book.h"
#include "server/gpu_server/memory/device_memory.h"
#include "server/gpu_server/memory/guarded_sizes.h"
#include "server/gpu_server/memory/host_segments.h"
#include "server/gpu_server/memory/kept_segments.h"
#include "server/gpu_server/memory/memory_links.h"
#include "server/gpu_server/modules/module_cache.h"
#include "server/gpu_server/saved/saved_sessions.h"
#include "server/gpu_server/session/bulk/bulk_port.h"
#include "server/gpu_server/session/client_presence.h"
#include "server/gpu_server/session/connection/session_channel.h"
#include "server/gpu_server/session/connection/session_port.h"
#include "server/gpu_server/session/lost_memory.h"
#include "server/gpu_server/session/server_books.h"
#include "server/gpu_server/session/session_children.h"
#include "server/gpu_server/session/session_client.h"
#include "server/gpu_server/session/session_holdings.h"
#include "server/gpu_server/session/session_lines.h"
#include "server/gpu_server/session/session_messages.h"
#include "server/gpu_server/session/session_modules.h"
#include "server/gpu_server/session/session_options.h"
#include "server/gpu_server/session/session_relay.h"
#include "server/gpu_server/session/session_resources.h"
#include "server/gpu_server/session/session_snapshot.h"
#include "server/gpu_server/session/session_worker.h"
#include "server/gpu_server/session/task_shares.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"

namespace warpline::server {

class Session;

// The operator's actions that need a session at rest.
enum class SessionAction {
  kReplace,  // Another worker takes over.
  kPageOut,  // Its device memory goes to the host, until it is wanted; see Paging.
  kPageIn,
  kSuspend,  // Its worker ends as well; see Suspension.
  kResume,
};

// The host of all sessions, for one of them.
class SessionOwner : public MemoryReclaimer {
 public:
  // The devices for a session, counted until OnSessionEnded(); see PlaceSession().
  virtual absl::StatusOr<std::vector<DeviceMemory*>> Place(const std::vector<std::string>& wanted)
      RUNS_ON(control_loop) = 0;
  // Returns true if another guarded session of the device has the arena, part of it, or one that
  // adjoins it. Memory that is away and sessions without a worker keep their addresses.
  virtual bool HasArena(const DeviceMemory& device, const ArenaRange& arena, uint64_t except)
      RUNS_ON(control_loop) = 0;
  // A client that was away has its session again.
  virtual void OnClientBack() RUNS_ON(control_loop) = 0;
  // Calls `again` once the devices seem to have room for what the session has away, and moves
  // others' memory for that where it may. Not at all after StopWaiting().
  virtual void AwaitReturnOf(const Session& session, std::function<void()> again)
      RUNS_ON(control_loop) = 0;
  // The session's memory is back, after the time that the move took.
  virtual void OnCame(uint64_t session, absl::Duration took) RUNS_ON(control_loop) = 0;
  // The session ends here and goes on elsewhere: its lease is not idle.
  virtual void KeepMembership(LeaseMembership membership) RUNS_ON(control_loop) = 0;
  // Gives the client the memory that it shares with the session, for another server. Returns false
  // when the client does not take it.
  virtual bool GiveToClient(uint64_t session, const std::vector<HostSegments::Shared>& memory)
      RUNS_ON(control_loop) = 0;
  // The session is over: worker gone, memory given back, channel closed.
  virtual void OnSessionEnded(uint64_t id, const std::vector<DeviceMemory*>& devices,
                              KeptSegments kept) RUNS_ON(control_loop) = 0;
};

// SessionControl posts to the control loop, on which the rest runs. Shared by the owner's table,
// the channel's side, and callbacks under way.
class Session : public SessionControl,
                private SessionWorkerEvents,
                private TakeoverEvents,
                public std::enable_shared_from_this<Session> {
 public:
  // The parts of the server that it asks. All are borrowed and outlive it.
  struct Parts {
    const SessionOptions* options = nullptr;
    EventLoop* control = nullptr;  // The session's state lives there.
    SessionOwner* owner = nullptr;
    SessionChildren* children = nullptr;
    SessionResources* resources = nullptr;
    ServerBooks* books = nullptr;
    ModuleCache* modules = nullptr;              // Null where no images are kept.
    dispatch::Dispatcher* dispatcher = nullptr;  // Null where nothing is dispatched.
  };

  // Admitted with `membership`.
  Session(const Parts& parts, uint64_t id, std::string peer, LeaseMembership membership);
  // Takes the secret of a session that another server had; Adopt() follows.
  Session(const Parts& parts, uint64_t id, std::string peer, LeaseMembership membership,
          std::string secret);

  // Ends an open session with an error for the application; any other just ends.
  void EndWithFault(CudaResult error, const std::string& message) RUNS_ON(control_loop);
  // Ends it because its lease was ended. The audit has the reason, the application
  // ReasonForHolder().
  void EndWithLease(const EndReason& reason) RUNS_ON(control_loop);
  // Ends it because the server's operator wants that; `reason` is told to the application, and may
  // be empty.
  void Revoke(const std::string& reason) RUNS_ON(control_loop);
  // Ends it because its worker does what it may not; the client can still read its memory.
  void EndDistrusted(const std::string& why) RUNS_ON(control_loop);
  // Ends it because its work was in the way of more urgent work; nothing of it is kept.
  void EndForUrgentWork(const dispatch::KillOrder& order) RUNS_ON(control_loop);
  // Does it with an open session. `done` is called with OK, which it is also where there is nothing
  // to be done, or why not: within `deadline`, or when the memory is on the device.
  void Do(SessionAction action, absl::Duration deadline, std::function<void(absl::Status)> done)
      RUNS_ON(control_loop);
  // Has another server go on with it: its client is sent away, and the session is suspended once it
  // has come to rest, which may take as long as `deadline`. `saved` is called once with all that
  // the other server needs, and the client cannot reach the session until EndSaved(). Otherwise it
  // goes on as it was, and `saved` is called with FAILED_PRECONDITION and what the session has that
  // would be lost, ABORTED for what passes by itself, or the errors of Paging::Out().
  using Saved = std::function<void(absl::StatusOr<SessionCut>)>;
  enum class Heir {
    kNextServer,   // The one that follows this one on this host.
    kOtherServer,  // One that runs now, maybe on another host.
    kCheckpoint,   // Any that restores a checkpoint.
  };
  void Save(Heir heir, absl::Duration deadline, Saved saved) RUNS_ON(control_loop);
  // Returns what it has that would be lost, or would be in the way; empty for nothing.
  std::string WhyNotSaved(Heir heir) RUNS_ON(control_loop);
  bool opening() const RUNS_ON(control_loop) {
    return state_ == State::kQueued || state_ == State::kOpening;
  }
  // It is open, or about to be again.
  bool Serving() const RUNS_ON(control_loop) {
    return state_ == State::kOpen || state_ == State::kReplacing || state_ == State::kSuspended;
  }
  // Ends the session here, once its heir has it. After an error it goes on. Returns false if it has
  // ended meanwhile, or its client is gone: nobody is to go on with it.
  bool EndSaved(const absl::Status& written) RUNS_ON(control_loop);
  // With this token its next server shows its lease.
  void SetToken(const std::string& token) RUNS_ON(control_loop) { token_ = token; }
  // Goes on with what another server saved, and waits for the client. After an error the session
  // ends: INVALID_ARGUMENT for what no session has, FAILED_PRECONDITION and RESOURCE_EXHAUSTED for
  // what this server does not have. Once, before anything else.
  absl::Status Adopt(SessionCut cut) RUNS_ON(control_loop);
  // Thread-safe. The session is being saved.
  bool handing_over() const { return handing_over_.load(std::memory_order_acquire); }
  // Thread-safe. The session cannot be resumed for now: it is being saved, or its client has memory
  // of it that has to come first.
  bool away() const {
    return handing_over() || barred_.load(std::memory_order_acquire) ||
           awaits_memory_.load(std::memory_order_acquire);
  }
  // Nothing that its client wants is done between these two: it has been adopted, but another
  // server may still go on with it in place of this one. Before Adopt(), and once.
  void Bar() RUNS_ON(control_loop) { barred_.store(true, std::memory_order_release); }
  // Returns false for a session that is not barred.
  bool LetIn() RUNS_ON(control_loop);
  // The client hands over memory that a former server shared with it. kInvalidValue for memory that
  // this was not, kOutOfMemory beyond a quota.
  HostSegments::Result TakeShared(const warpline_internal::HostMemoryRequest& request,
                                  std::vector<UniqueFd> memory) RUNS_ON(control_loop);
  // The client asks for host memory that it shares, or gives some back.
  void OnHostMemory(const warpline_internal::HostMemoryRequest& request,
                    HostSegments::Answer answer) RUNS_ON(control_loop);

  SessionSnapshot Snapshot() const RUNS_ON(control_loop);
  // How much of `wanted` it keeps.
  uint64_t KeptBytes(const KeptMemory& wanted) const RUNS_ON(control_loop);
  // Whether it has some of `wanted` and is about to give it back: it ends, or its client is away or
  // no more.
  bool ComesBack(const KeptMemory& wanted) const RUNS_ON(control_loop);
  // Returns its part of a device, but for the policy's opinion; nothing if it is not open or does
  // not use the device.
  std::optional<Resident> ResidentOn(const DeviceMemory& device) const RUNS_ON(control_loop);
  // Returns what it has done so far, if it is open and its memory is on the device.
  std::optional<SessionProgress> Progress() const RUNS_ON(control_loop);
  // Returns the bytes in chunks of a device that can be moved, and that are away.
  uint64_t ChunkBytesOn(const DeviceMemory& device) const RUNS_ON(control_loop);
  uint64_t AwayBytesOn(const DeviceMemory& device) const RUNS_ON(control_loop);
  // Returns those that stay there, since other sessions have the memory, too, or may have it.
  // Memory whose share is in `seen` is left out; null counts all.
  uint64_t StayingBytesOn(const DeviceMemory& device, SharesSeen* seen = nullptr) const
      RUNS_ON(control_loop);
  // Returns what its worker takes of a device for itself, which counts against the device.
  uint64_t OwnBytesOn(const DeviceMemory& device) const RUNS_ON(control_loop);
  // Returns why its memory cannot be moved, which is that of all its devices together, or an empty
  // text.
  std::string WhyNotMovable() const RUNS_ON(control_loop);
  // Returns true if this is a guarded session of the device whose arena overlaps `arena` or adjoins
  // it.
  bool HasArena(const DeviceMemory& device, const ArenaRange& arena) const RUNS_ON(control_loop);
  // Returns what it has on a device or asks for of it, also while that is moved.
  uint64_t HeldBytesOn(const DeviceMemory& device) const RUNS_ON(control_loop);
  // See LeaseMembership.
  uint64_t ResidentBytes() const RUNS_ON(control_loop) { return membership_.ResidentBytes(); }
  void SetResidentBytes(uint64_t bytes) RUNS_ON(control_loop) {
    membership_.SetResidentBytes(bytes);
  }
  // Returns all that it has of a device and asks for now.
  uint64_t TotalBytesOn(const DeviceMemory& device) const RUNS_ON(control_loop);
  uint64_t id() const { return id_; }
  // See LeaseMembership::payer().
  std::string payer() const RUNS_ON(control_loop) { return membership_.payer(); }
  // Returns the bytes that are away by the ordinal of the device, with those of the request that
  // waits if `with_request`.
  std::map<int, uint64_t> AwayBytes(bool with_request) const RUNS_ON(control_loop);
  const Entitlement& entitlement() const RUNS_ON(control_loop) { return membership_.entitlement(); }
  // The nice value of its client's process, from 0 to kMostNiceness.
  uint32_t niceness() const RUNS_ON(control_loop) { return NicenessOf(hello_.niceness()); }
  // Whom policies know it by.
  std::string policy_tenant() const RUNS_ON(control_loop);
  absl::Duration age() const;
  // Thread-safe.
  const std::shared_ptr<SessionPort>& port() const { return port_; }
  const std::shared_ptr<BulkPort>& bulk() const { return bulk_; }
  // Thread-safe. Compares in constant time.
  bool HasSecret(const std::string& secret) const;

  // SessionControl.
  void OnHello(warpline_internal::Hello hello) override;
  void OnMemoryRequest(warpline_internal::MemoryRequest request) override;
  void OnMemoryReturn(warpline_internal::MemoryReturn request) override;
  void OnReadMemory(warpline_internal::ReadBack request) override;
  void OnProtocolError(const absl::Status& status) override;
  void OnWorkerGarbage(const absl::Status& status) override;
  void OnResumed(bool moved) override;
  void OnChannelClosed(const absl::Status& status) override;
  bool TryCountRequest() override { return client_.TryCount(); }
  void OnBulkMemory(uint32_t slot, warpline_internal::HostMemoryRequest request) override;
  void OnRelayAsk() override;
  void OnCommandsWait() override;

 private:
  using BulkMemoryAnswer = SessionRelay::MemoryAnswer;

  enum class State {
    kWaiting,
    kQueued,
    kOpening,
    kOpen,
    kReplacing,
    kSuspended,
    kFaulted,
    kEnding,
    kEnded,
  };

  // SessionWorkerEvents.
  void OnWorkerOpened(const warpline_internal::WorkerOpened& opened) override RUNS_ON(control_loop);
  void OnVariablesSaved(const warpline_internal::VariablesSaved& saved) override
      RUNS_ON(control_loop);
  void OnWorkerLost(const std::string& why) override RUNS_ON(control_loop);
  void OnWorkerLeaving() override RUNS_ON(control_loop);
  void OnWorkerHangs() override RUNS_ON(control_loop);
  void OnWorkerDistrusted(const std::string& why) override RUNS_ON(control_loop);
  void OnWorkerGone() override RUNS_ON(control_loop);

  // TakeoverEvents.
  void OnNextWorkerUseless(const std::string& why) override RUNS_ON(control_loop) {
    NoteDeath(why);
  }
  void OnTakenOver() override RUNS_ON(control_loop);
  void OnTakeoverFailed(const std::string& why) override RUNS_ON(control_loop);

  // Opening.
  void HandleHello() RUNS_ON(control_loop);
  absl::Status CheckMembership() RUNS_ON(control_loop);
  absl::Status TakePlace() RUNS_ON(control_loop);
  // The server's policy has the session opened, wait, or refused.
  void AskPolicy() RUNS_ON(control_loop);
  void BeginOpening() RUNS_ON(control_loop);
  // The ordinals of its devices, with commas between.
  std::string DevicesText() const RUNS_ON(control_loop);
  void OpenDevices() RUNS_ON(control_loop);
  // Takes what the session has of the host's memory in any case. Waits until `deadline` for what
  // comes back by itself.
  void TakeHostMemory(absl::Time deadline) RUNS_ON(control_loop);
  std::shared_ptr<Quota> QuotaOn(const DeviceMemory& device) RUNS_ON(control_loop);
  // Charges what a guarded session's worker takes of the device, and then starts it.
  void TakeOwnMemory() RUNS_ON(control_loop);
  absl::Status JoinDispatch() RUNS_ON(control_loop);
  // The session's part of dispatch, and the group of its workers. Before the first one.
  absl::Status PrepareWorkers() RUNS_ON(control_loop);
  void StartWorker() RUNS_ON(control_loop);
  void OpenTo(const warpline_internal::WorkerOpened& opened) RUNS_ON(control_loop);
  // Memory before the client has it: `granted` is called if the session is still opening then.
  void TakeFirst(const warpline_internal::MemoryRequest& request,
                 std::function<void(warpline_internal::MemoryGrant)> granted) RUNS_ON(control_loop);
  // All that a guarded session gets.
  void TakeAll() RUNS_ON(control_loop);
  // The client may be away for `patience`.
  void KnowClient(absl::Duration patience) RUNS_ON(control_loop);
  void Welcome(warpline_internal::MemoryGrant grant) RUNS_ON(control_loop);
  SessionFacts Facts() const RUNS_ON(control_loop);
  SessionStanding Standing() const RUNS_ON(control_loop);

  // The session has been open.
  bool Began() const RUNS_ON(control_loop) {
    return state_ != State::kWaiting && state_ != State::kQueued && state_ != State::kOpening;
  }
  // Something of an open session is done on the loop. `body` is not called, and the request is
  // done, when the session is not open any more.
  void WhileServing(std::function<void()> body);
  // Takes host memory that is shared with the client, or gives it back. A request that does not fit
  // waits until `deadline` for what comes back by itself.
  void TakeHostSegment(const warpline_internal::HostMemoryRequest& request, absl::Time deadline,
                       HostSegments::Answer answer) RUNS_ON(control_loop);
  void HandleRead(const warpline_internal::ReadBack& request) RUNS_ON(control_loop);
  // A bulk connection asks for host memory, or gives some back.
  void HandleBulkMemory(const warpline_internal::HostMemoryRequest& request,
                        BulkMemoryAnswer answer) RUNS_ON(control_loop);
  // The worker is lost, or leaves.
  void JoinRecovery() RUNS_ON(control_loop);
  void BeginTakeover(const std::string& why, UniqueFd variables) RUNS_ON(control_loop);
  // Ends the worker of a session whose memory is away.
  void EndWorker(const std::string& reason) RUNS_ON(control_loop);
  // The worker that was ended is gone.
  void OnSuspended() RUNS_ON(control_loop);
  // Has the memory of a suspended session written to a file, where the server has files.
  void StoreMemory() RUNS_ON(control_loop);
  // Brings the memory of a suspended session back, and has another worker take over.
  void WakeUp(Paging::Done done) RUNS_ON(control_loop);
  // Saving (session_saving.cc).
  // Answers the requests for host memory that came while nothing was to be done.
  void AnswerHeld() RUNS_ON(control_loop);
  // Returns the host memory that it shares with its client, without that of bulk connections.
  std::vector<HostSegments::Shared> SharedWithClient() RUNS_ON(control_loop);
  // Goes on with the saving once neither the client nor a relay of it is there.
  void AwaitHandedOver() RUNS_ON(control_loop);
  // They are gone: suspends the session.
  void OnHandedOver() RUNS_ON(control_loop);
  // A worker has to send its replies before it rests. Without a channel, the link keeps them.
  void KeepFramesUntilItRests() RUNS_ON(control_loop);
  // Moves to the link what would be sent to the client by now. ABORTED when that is more than a
  // link keeps, so that the client has to take it first.
  absl::Status KeepFrames() RUNS_ON(control_loop);
  // The session is suspended: shows what there is.
  void ShowSaved() RUNS_ON(control_loop);
  absl::StatusOr<SessionCut> MakeCut(const SessionMemory::AwayShown& away) RUNS_ON(control_loop);
  // Gives the client what it shares with the session, and notes that in the manifest.
  absl::Status ShowShared(warpline_internal::SavedSession* to) RUNS_ON(control_loop);
  void StopSaving(const absl::Status& status) RUNS_ON(control_loop);
  // The client may come back.
  void TakeBack() RUNS_ON(control_loop);
  absl::Status TryAdopt(SessionCut cut) RUNS_ON(control_loop);
  absl::Status AdmitAdopted(const SessionCut& cut) RUNS_ON(control_loop);
  absl::Status AdoptWorker(SessionCut* cut) RUNS_ON(control_loop);
  absl::Status AdoptLink(const warpline_internal::SavedSession& from) RUNS_ON(control_loop);
  // Whatever goes on with the worker is forgotten, for the reason `status`.
  void ForgetMoves(const absl::Status& status) RUNS_ON(control_loop);
  void NoteDeath(const std::string& why) RUNS_ON(control_loop);
  void SetTimer(absl::Duration delay, void (Session::*body)()) RUNS_ON(control_loop);
  void ClearTimer() RUNS_ON(control_loop);

  // Ends.
  void HandleChannelClosed(const absl::Status& status) RUNS_ON(control_loop);
  void GiveClientUp(const std::string& reason) RUNS_ON(control_loop);
  void OpenTimedOut() RUNS_ON(control_loop);
  void FaultTimedOut() RUNS_ON(control_loop);
  // Sends the client away with `status` and ends.
  void Refuse(const absl::Status& status) RUNS_ON(control_loop);
  // Refuses what may be otherwise for a session of another tier.
  void RefuseTier(const absl::Status& status) RUNS_ON(control_loop);
  void ProtocolError(const absl::Status& status) RUNS_ON(control_loop);
  void Distrust(const std::string& why, const std::string& message) RUNS_ON(control_loop);
  void SendFault(CudaResult error, const std::string& message, bool keep_memory)
      RUNS_ON(control_loop);
  void End(const std::string& reason) RUNS_ON(control_loop);
  void MaybeFinish() RUNS_ON(control_loop);
  // The same once whatever calls has returned.
  void FinishSoon();
  // What it had goes into the server's totals.
  void SayClosed() const RUNS_ON(control_loop);

  const Parts parts_;
  const uint64_t id_;
  const absl::Time since_;
  const std::string secret_;
  const std::shared_ptr<SessionPort> port_;
  const std::shared_ptr<BulkPort> bulk_ = std::make_shared<BulkPort>();
  const std::shared_ptr<SessionAudit> audit_;

  SessionLines lines_ ABSL_GUARDED_BY(control_loop);
  ClientPresence presence_ ABSL_GUARDED_BY(control_loop);
  SessionRelay relay_ ABSL_GUARDED_BY(control_loop);
  SessionClient client_;  // Guards what it has; TryCount() is the channel's.
  const std::shared_ptr<SessionModules> modules_;
  SessionWorker worker_ ABSL_GUARDED_BY(control_loop);
  SessionHoldings holdings_ ABSL_GUARDED_BY(control_loop);
  LostMemory lost_memory_ ABSL_GUARDED_BY(control_loop);
  Takeover takeover_ ABSL_GUARDED_BY(control_loop);
  // Its part in what becomes of the sessions of a lost process; null for none.
  std::unique_ptr<RecoveryShare> recovery_ ABSL_GUARDED_BY(control_loop);
  Rest rest_ ABSL_GUARDED_BY(control_loop);
  VariableSaver saver_ ABSL_GUARDED_BY(control_loop);
  Replacement replacement_ ABSL_GUARDED_BY(control_loop);
  Paging paging_ ABSL_GUARDED_BY(control_loop);
  Suspension suspension_ ABSL_GUARDED_BY(control_loop);
  Saved saved_ ABSL_GUARDED_BY(control_loop);
  absl::Duration save_deadline_ ABSL_GUARDED_BY(control_loop);
  Heir heir_ ABSL_GUARDED_BY(control_loop) = Heir::kNextServer;
  bool relay_gone_ ABSL_GUARDED_BY(control_loop) = false;
  bool handed_over_ ABSL_GUARDED_BY(control_loop) = false;
  std::atomic<bool> handing_over_{false};
  // Memory that the client shared with a former server, and has not handed over yet; by address.
  std::map<uint64_t, warpline_internal::KeptSegment> awaited_ ABSL_GUARDED_BY(control_loop);
  std::atomic<bool> awaits_memory_{false};
  // Requests for host memory that came while the session was saved. Another server gets them again.
  std::atomic<bool> barred_{false};
  std::vector<std::function<void()>> held_requests_ ABSL_GUARDED_BY(control_loop);
  bool outlives_ ABSL_GUARDED_BY(control_loop) = false;  // It was saved.
  // Shown to the next server, where leases are a scheduler's.
  std::string token_ ABSL_GUARDED_BY(control_loop);
  // Called once another worker has taken over a suspended session.
  Paging::Done woken_ ABSL_GUARDED_BY(control_loop);

  State state_ ABSL_GUARDED_BY(control_loop) = State::kWaiting;
  std::string reason_ ABSL_GUARDED_BY(control_loop);
  warpline_internal::Hello hello_ ABSL_GUARDED_BY(control_loop);
  WelcomeTerms terms_ ABSL_GUARDED_BY(control_loop);
  GuardedSizes guarded_sizes_ ABSL_GUARDED_BY(control_loop);
  LeaseMembership membership_ ABSL_GUARDED_BY(control_loop);
  bool has_arena_ ABSL_GUARDED_BY(control_loop) = false;  // HasArena() may be true.
  // As placed, until the end.
  std::vector<DeviceMemory*> placed_ ABSL_GUARDED_BY(control_loop);
  TaskShares::Share tasks_ ABSL_GUARDED_BY(control_loop);
  EventLoop::Token timer_ ABSL_GUARDED_BY(control_loop) = 0;
  absl::Duration queued_ ABSL_GUARDED_BY(control_loop);  // How long the policy has had it wait.
  bool killed_ ABSL_GUARDED_BY(control_loop) = false;    // For more urgent work.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_H_
