// All sessions of a server: admits them, places them on devices, counts them, drains them.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_HOST_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_HOST_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "audit/audit_log.h"
#include "common/log/keyed_log_budget.h"
#include "common/mutex.h"
#include "lease/end_reason.h"
#include "lease/token.h"
#include "proto/scheduler.pb.h"
#include "server/gpu_server/children/workers/context_measure.h"
#include "server/gpu_server/continuity/idle_watch.h"
#include "server/gpu_server/continuity/residency.h"
#include "server/gpu_server/dispatch/dispatcher.h"
#include "server/gpu_server/leases/lease_book.h"
#include "server/gpu_server/memory/device_memory.h"
#include "server/gpu_server/memory/host_memory_port.h"
#include "server/gpu_server/modules/module_cache.h"
#include "server/gpu_server/moves/move_pipe.h"
#include "server/gpu_server/moves/sent_sessions.h"
#include "server/gpu_server/saved/saved_sessions.h"
#include "server/gpu_server/session/reclaim_policy.h"
#include "server/gpu_server/session/return_waits.h"
#include "server/gpu_server/session/server_books.h"
#include "server/gpu_server/session/server_log.h"
#include "server/gpu_server/session/session.h"
#include "server/gpu_server/session/session_children.h"
#include "server/gpu_server/session/session_options.h"
#include "server/gpu_server/session/session_resources.h"
#include "server/gpu_server/session/session_snapshot.h"
#include "server/hostlink/handover/counters.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/event_loop.h"
#include "transport/channel.h"

namespace warpline::server {

// How much of the devices' memory sessions may have together.
struct MemoryOvercommit {
  // So many times what the devices have. With more than 1, what does not fit is on the host
  // meanwhile, and sessions take turns.
  double factor = 1;
  // This part of a device's memory is kept free by moving sessions without work to the host.
  double low_water = 1.0 / 32;
};

struct SessionHostOptions {
  SessionOptions session;
  SessionChildrenOptions children;
  LeaseBook* leases = nullptr;       // Borrowed, and outliving the host.
  audit::AuditLog* audit = nullptr;  // Borrowed likewise; null where nothing is recorded.
  // Of sessions' time on the devices; null for none.
  std::unique_ptr<dispatch::Dispatcher> dispatcher;
  int max_sessions = 64;
  // Tasks that the server and its workers may be together (SystemTaskLimit()), and those that a
  // stream takes on the devices.
  uint64_t tasks = 1 << 20;
  uint64_t tasks_per_stream = 1;
  std::unique_ptr<ModuleStore> modules;  // Null to keep none.
  // Host memory that sessions may share with their clients; 0 for half of the machine's.
  uint64_t host_memory_bytes = 0;
  MemoryOvercommit overcommit;
  // A session that has done nothing for this time is suspended, or else its memory is moved to the
  // host. Infinite for never.
  absl::Duration idle = absl::InfiniteDuration();
  KeyedLogBudgetOptions log = ServerLogOptions();
  // Where sessions outlive the server; null for nowhere.
  std::unique_ptr<SavedSessions> saved;
};

// One device in a HostSnapshot.
struct DeviceSnapshot {
  int ordinal = 0;
  std::string name;
  std::string uuid;  // As nvidia-smi prints it.
  std::string backend;
  int sessions = 0;
  DeviceMemory::Stats memory;
  // Sessions may have so much of it together; see MemoryOvercommit.
  uint64_t offered_bytes = 0;
  warpline_internal::DeviceInfo info;
};

struct HostSnapshot {
  std::vector<SessionSnapshot> sessions;
  std::vector<DeviceSnapshot> devices;
  bool draining = false;
  // Of all sessions; its totals are since the start.
  SessionUsage usage;
  // That sessions share with their clients, and what all of them may.
  uint64_t host_memory_bytes = 0;
  uint64_t host_memory_limit_bytes = 0;
  // The host memory that holds memory moved from devices, and all that there is for that.
  uint64_t swap_bytes = 0;
  uint64_t swap_limit_bytes = 0;
};

// A checkpoint to be saved or restored.
struct CheckpointOrder {
  std::string dir;
  SwapSpace* space = nullptr;  // Borrowed; null where no memory is moved.
  // Saved are the sessions of the lease, or else this one. Each may take as long as `deadline` to
  // come to rest. With `ends` they end here once the disk has them.
  std::string lease = {};
  uint64_t session = 0;
  bool ends = false;
  absl::Duration deadline = {};
  // The device that restored sessions are to have; empty for the one that they had.
  std::string device = {};
};

struct CheckpointResult {
  size_t sessions = 0;
  uint64_t bytes = 0;          // Their device memory that is not zeros.
  uint64_t written_bytes = 0;  // The part of it that the folder did not have yet.
  absl::Duration pause = {};   // Until they were let go on; until the disk had them if they end.
};

// How far a checkpoint is, for other threads.
struct CheckpointProgress {
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> done_bytes{0};
};

// Moving leases needs these from others. The functions block; `dial` is SendSessions()'s.
struct MoveServices {
  MoveDialer dial;
  // The scheduler's CommitMove, for a request without name and credential, which returns the
  // lease's token here, and its EndMove.
  std::function<absl::StatusOr<std::string>(warpline_internal::MoveCommit request)> commit;
  std::function<absl::StatusOr<warpline_internal::MoveEndReply>(const std::string& lease,
                                                                const std::string& why)>
      end;
  SwapSpace* space = nullptr;  // Borrowed; null where no memory is moved.
};

// Thread-safe.
class SessionHost : public Acceptor,
                    private SessionOwner,
                    private ResidencyHost,
                    private SessionDirectory,
                    private HostMemorySessions {
 public:
  // `devices` are in order of ordinal, at least one.
  SessionHost(SessionHostOptions options, std::vector<std::unique_ptr<DeviceMemory>> devices);
  // Every channel has been closed before. Waits until workers and memory are gone.
  ~SessionHost() override;

  // Acceptor. Takes every channel: whether its client opens a session, which may be refused, or
  // resumes one is not known before its first frame.
  std::unique_ptr<SessionHandler> Accept(const std::string& peer, absl::Status* refusal) override;

  // Refuses new sessions from now on. Those that are there may still be resumed.
  void StartDrain();
  // True when no session is left, false when `timeout` passed first.
  bool WaitUntilIdle(absl::Duration timeout);
  // Starts the waiting workers anew, of the program that lies there now.
  void RenewWorkers();
  // Does something with session `id` once nothing of it is in flight, which may take as long as
  // `deadline`. `done` is called on the control loop: OK, or why not. NOT_FOUND.
  void Do(SessionAction action, uint64_t id, absl::Duration deadline,
          std::function<void(absl::Status)> done);
  // Sets what all sessions of the session's lease may have on each device at a time; 0 for no
  // limit. `done` is called on the control loop. NOT_FOUND; FAILED_PRECONDITION where the server
  // moves no memory or has too little host memory for it, or where a session of the lease has more,
  // since it would never come back.
  void SetResident(uint64_t id, uint64_t bytes, std::function<void(absl::Status)> done);
  // Ends a session; see Session::Revoke(). `done` is called with OK, or NOT_FOUND.
  void Revoke(uint64_t id, const std::string& reason, std::function<void(absl::Status)> done);
  // Finds the sessions that the server before this one saved: their clients are told to wait from
  // now on. Once, before there are sessions.
  void FindSaved();
  // Begins to take them over, and returns. Once.
  void RestoreSaved();
  // Saves all sessions that can outlive the server, and ends them here; the others go on. Each has
  // `deadline` to come to rest. Returns when that is done, with how many were saved.
  int SaveAll(absl::Duration deadline);
  // Brings all sessions to rest so that the next version of the server can go on with them, each
  // within `deadline`. Until EndCut() their clients wait, and new sessions are refused. Where one
  // cannot, all go on, and the error says why: FAILED_PRECONDITION for what it has that would be
  // lost, before anything is done; otherwise Session::Save()'s. With `force` the others are
  // returned all the same. Blocks.
  absl::StatusOr<std::vector<SessionCut>> CutAll(absl::Duration deadline, bool force);
  // Ends the sessions that CutAll() returned, since another server has them, or after an error has
  // them go on. Blocks.
  void EndCut(const std::vector<SessionCut>& cuts, const absl::Status& passed);
  // Sessions come from the version before: their clients are told to wait from now on. Once, before
  // there are sessions.
  void ExpectPassed(const std::vector<SessionCut>& cuts);
  // Takes them over, and returns how many; all is done in them as if there were no clients until
  // LetPassedIn(). One whose lease
  // is not known yet is tried again until `give_up`. One that cannot go on is an error if it must
  // be `all`, and is otherwise lost. Blocks.
  absl::StatusOr<uint32_t> AdoptPassed(std::vector<SessionCut> cuts, bool all, absl::Time give_up);
  void LetPassedIn();
  // Writes sessions into the folder of a checkpoint, all as they are at one moment. They go on as
  // soon as their memory is in the host's, while it is being written. NOT_FOUND without such
  // sessions; FAILED_PRECONDITION for what one of them has that would be lost, before anything is
  // done; otherwise Session::Save()'s errors, and CheckpointFolder's. Blocks.
  absl::StatusOr<CheckpointResult> SaveCheckpoint(const CheckpointOrder& order,
                                                  CheckpointProgress* progress);
  // Goes on with the sessions of a checkpoint, all of them or none. The folder stays as it is.
  // ALREADY_EXISTS where one of them runs here; otherwise CheckpointFolder's errors, and those of
  // leases and devices. Blocks.
  absl::StatusOr<CheckpointResult> RestoreCheckpoint(const CheckpointOrder& order,
                                                     CheckpointProgress* progress);
  // Leases move to and from this server until StopMoves(), which ends moves that are under way.
  void StartMoves(MoveServices services);
  void StopMoves();
  // Begins to move a lease's sessions to another server, as the scheduler asks, and returns. An
  // order that is known does nothing.
  void MoveLease(const warpline_internal::MoveOrder& order);
  // Waits until no lease is on its way from here, and until the clients of sessions that have moved
  // know where to, or until `deadline`.
  void AwaitMoved(absl::Time deadline);
  // Ends what runs with an error for the application.
  void FaultAll(const std::string& message);

  // Ends the sessions of a lease with an error for the application.
  void EndLease(const std::string& lease, const EndReason& reason);

  // Ends one session whose worker is not trusted any more, with an error for the application and
  // its memory kept to be read. Nothing where it is gone. Does not wait.
  void EndSession(uint64_t id, const std::string& reason);

  // Sessions from their admission until nothing of them is left.
  int sessions() const;
  HostSnapshot Snapshot();
  const ServerCounters& counters() const { return books_.counters; }
  const std::string& host_memory_socket() const { return options_.session.host_memory_socket; }
  // Null where sessions share devices as the driver has it.
  dispatch::Dispatcher* dispatcher() const { return options_.dispatcher.get(); }
  // Null where no module images are kept.
  const ModuleStore* modules() const { return modules_ == nullptr ? nullptr : &modules_->store(); }
  // Traffic of all sessions since the start.
  void AddTraffic(TrafficCounters* total);

 private:
  // SessionOwner.
  absl::StatusOr<std::vector<DeviceMemory*>> Place(const std::vector<std::string>& wanted) override
      RUNS_ON(control_loop);
  bool HasArena(const DeviceMemory& device, const ArenaRange& arena, uint64_t except) override
      RUNS_ON(control_loop);
  ShortageVerdict OnShortage(const KeptMemory& wanted, const MemoryShortage& shortage) override
      RUNS_ON(control_loop);
  bool AwaitReturn(const KeptMemory& wanted, absl::Time deadline,
                   std::function<void()> again) override RUNS_ON(control_loop);
  bool EndWaitingWorkers(const DeviceMemory& device) override RUNS_ON(control_loop);
  bool Reclaim(const KeptMemory& wanted, std::function<void()> tried) override
      RUNS_ON(control_loop);
  bool AwaitRoom(uint64_t session, const DeviceMemory& device, uint64_t bytes,
                 std::function<void(absl::Status)> again) override RUNS_ON(control_loop);
  void StopWaiting(uint64_t session) override RUNS_ON(control_loop) {
    residency_.StopWaiting(session);
  }
  // Returns what sessions may have of the device together.
  uint64_t OfferedBytes(const DeviceMemory& device) const;
  uint64_t MostGrowth(uint64_t session, const DeviceMemory& device, bool stays) override
      RUNS_ON(control_loop);
  uint64_t LeftOfLimit(uint64_t session, const DeviceMemory& device) override RUNS_ON(control_loop);
  bool MayStay(uint64_t session, uint64_t bytes, const DeviceMemory& device) override
      RUNS_ON(control_loop);
  // Returns what the sessions have of the device, or those of `session`'s lease of its part, in
  // the order in which they are to be obeyed. `stays` is left to the caller.
  std::vector<GrowthFacts> GrowthFactsOf(uint64_t session, const DeviceMemory& device)
      RUNS_ON(control_loop);
  // Returns those of `session`'s lease of its part, as if it had this limit.
  GrowthFacts LeaseFactsOf(uint64_t session, const DeviceMemory& device, const LeaseLimit& limit)
      RUNS_ON(control_loop);
  // Adds what the session has of the device to the facts.
  void AddGrowthFacts(const Session& session, const DeviceMemory& device, bool grows,
                      SharesSeen* seen, GrowthFacts* facts) const RUNS_ON(control_loop);
  // Returns the device's part of the host's memory for what is away.
  uint64_t SwapBytesFor(const DeviceMemory& device) const;
  void AwaitReturnOf(const Session& session, std::function<void()> again) override
      RUNS_ON(control_loop);
  void OnCame(uint64_t session, absl::Duration took) override RUNS_ON(control_loop);
  // Returns the policy's verdict on a session, if `context.bytes` of its memory are wanted.
  policy::Verdict AskReclaim(const Session& session, policy::ReclaimContext context)
      RUNS_ON(control_loop);

  // ResidencyHost. Devices are numbered by their ordinals.
  std::vector<Resident> ResidentsOf(int device) override RUNS_ON(control_loop);
  void Score(uint64_t wanted_by, std::vector<Resident>* residents) override RUNS_ON(control_loop);
  DeviceRoom RoomOf(int device) override RUNS_ON(control_loop);
  LeaseLimit LimitOf(uint64_t session) override RUNS_ON(control_loop);
  void MoveOut(uint64_t session, absl::Duration deadline,
               std::function<void(absl::Status)> done) override RUNS_ON(control_loop);
  void OnEvicted(const Eviction& eviction, const absl::Status& status) override
      RUNS_ON(control_loop);
  void OnClientBack() override RUNS_ON(control_loop) { return_waits_.Wake(); }
  bool GiveToClient(uint64_t session, const std::vector<HostSegments::Shared>& memory) override
      RUNS_ON(control_loop);
  void KeepMembership(LeaseMembership membership) override RUNS_ON(control_loop) {
    kept_.push_back(std::move(membership));
  }
  void OnSessionEnded(uint64_t id, const std::vector<DeviceMemory*>& devices,
                      KeptSegments kept) override RUNS_ON(control_loop);

  // IdleWatch.
  std::vector<SessionProgress> OpenSessions() RUNS_ON(control_loop);
  void SuspendIdle(uint64_t session) RUNS_ON(control_loop);

  // SessionDirectory.
  absl::StatusOr<SessionSides> Create(const std::string& peer,
                                      const warpline_internal::Hello& hello) override;
  absl::StatusOr<SessionSides> Find(const std::string& peer, uint64_t id,
                                    const std::string& secret) override;
  void OnStrangersError(const std::string& peer, const absl::Status& status) override;

  // Saving (session_host_saving.cc).
  struct Saving;
  Session::Parts PartsOfSession();
  struct CutTerms {
    Session::Heir heir;
    absl::Duration deadline;            // For it to come to rest, each time that it is tried.
    std::function<bool()> tries_again;  // After an error that passes by itself.
  };
  // Session::Save() of a session, tried again while it fails for what passes by itself. NOT_FOUND
  // for one that has ended.
  void Cut(uint64_t id, const CutTerms& terms, Session::Saved cut) RUNS_ON(control_loop);
  // Sessions that are brought to rest together.
  struct Resting {
    size_t left = 0;               // Those that are still on their way there.
    std::vector<SessionCut> cuts;  // Those that are at rest.
    absl::Status failed;           // The first error of the others; OK for none.
  };
  struct GroupTerms {
    Session::Heir heir;
    absl::Duration deadline;  // CutTerms::deadline.
    absl::Time give_up;       // No session is tried again from then on.
    bool all = true;          // Without all of them, none: the first error ends all trying.
    const char* failure;      // The words of an error between the session and the reason.
  };
  // Cuts the sessions, those that have ended aside, and calls `done` when nothing is left to be
  // done.
  void CutGroup(const std::vector<uint64_t>& ids, const GroupTerms& terms,
                const std::function<void(Resting)>& done) RUNS_ON(control_loop);
  // CutGroup(), which tries for twice the deadline. Blocks.
  Resting BringToRest(const std::vector<uint64_t>& ids, Session::Heir heir, absl::Duration deadline,
                      bool all);
  // Session::EndSaved() of sessions that were cut.
  void EndCutSessions(const std::vector<uint64_t>& ids, const absl::Status& written)
      RUNS_ON(control_loop);
  void SaveOne(uint64_t id, const std::shared_ptr<Saving>& saving) RUNS_ON(control_loop);
  void OnSaved(uint64_t id, const std::shared_ptr<Saving>& saving, absl::StatusOr<SessionCut> cut)
      RUNS_ON(control_loop);
  void OnWritten(uint64_t id, const std::string& secret, const absl::Status& written,
                 const std::shared_ptr<Saving>& saving) RUNS_ON(control_loop);
  // Reads and takes over a session, or tries again before `give_up`.
  void RestoreOne(uint64_t id, absl::Time give_up);
  absl::Status AdoptOne(SessionCut cut) RUNS_ON(control_loop);
  absl::Status AdoptAs(uint64_t id, LeaseMembership membership, SessionCut cut, bool barred = false)
      RUNS_ON(control_loop);
  // Its client does not look for it here any more.
  void ForgetNumber(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Its client is not told to wait for it any more, either.
  void ForgetAway(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // It cannot go on here.
  void LeaveSaved(uint64_t id, const absl::Status& why);
  void OnDisk(std::function<void()> body);
  // The server is about to end.
  bool Leaves() const;

  // Upgrades (session_host_upgrading.cc).
  void HoldNewSessions(bool hold);
  void AwaitOpened(absl::Time deadline);
  // Returns OK if the sessions may be cut; otherwise why not. `fate` says what becomes of those
  // that may not.
  absl::Status CheckCuts(const std::vector<uint64_t>& ids, Session::Heir heir, const char* fate);
  absl::Status AdoptWhenItMay(SessionCut cut, absl::Time give_up);

  // Checkpoints (session_host_checkpoints.cc).
  absl::StatusOr<std::vector<uint64_t>> SessionsOf(const CheckpointOrder& order);
  void EndInCheckpoint(const std::vector<SessionCut>& cuts, const absl::Status& written);
  absl::Status CheckNotHere(const std::string& secret);
  // Adds the session's number to `*ids`.
  absl::Status AdoptCheckpointed(SessionCut cut, std::vector<uint64_t>* ids) RUNS_ON(control_loop);

  // Moving (session_host_moving.cc).
  struct Moving;
  // A lease that is elsewhere, or on its way there.
  struct Move {
    std::string ticket;
    bool under_way = false;
    std::string endpoint = {};  // Empty where it did not move.
    std::string token = {};     // Its token there, as it was then; empty where it is not known.
  };
  // A session that is elsewhere.
  struct Gone {
    std::string endpoint;
    absl::Time until;
    bool told = false;  // Its client knows.
  };
  absl::Status TakeMove(const std::string& peer, const warpline_internal::MoveHello& hello,
                        std::shared_ptr<MovePipe> pipe) override;
  std::shared_ptr<const MoveServices> MovesWith();
  // Waits; returns false once moves are stopped.
  bool PauseMoves(absl::Duration pause);
  void BeginMove(const warpline_internal::MoveOrder& order) RUNS_ON(control_loop);
  // All its sessions are at rest, or the lease stays.
  void SendAway(const std::shared_ptr<Moving>& moving) RUNS_ON(control_loop);
  // Ends the move at the scheduler. Returns true if it was committed.
  absl::StatusOr<bool> EndMove(const Moving& moving, const absl::Status& why);
  // The lease is elsewhere, with this token, or stays.
  void FinishMove(const std::shared_ptr<Moving>& moving, const absl::StatusOr<std::string>& token)
      RUNS_ON(control_loop);
  // Returns where sessions are opened with a token whose lease has moved. Sets `*refusal` for one
  // that is on its way.
  std::optional<warpline_internal::Redirect> WhereTo(const std::string& token,
                                                     const CertificateHolder& holder,
                                                     absl::Status* refusal);
  // Returns true for a session that has moved, with where it is.
  bool HasLeft(const std::string& secret, std::string* endpoint);
  // Returns false for one that was shown before.
  bool UseTicket(const LeaseToken& ticket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReceiveLease(const LeaseToken& ticket, const warpline_internal::MoveHello& hello,
                    MovePipe* pipe);
  // Fills `*ids` with those that were adopted, also after an error.
  absl::Status AdoptMoved(const LeaseToken& ticket, std::vector<SessionCut> cuts,
                          std::vector<uint64_t>* ids) RUNS_ON(control_loop);
  absl::Status CommitMove(const std::string& ticket, const std::vector<uint64_t>& former,
                          const std::vector<uint64_t>& ids, uint64_t bytes, std::string* token);

  void RecordRefusal(const std::string& peer, uint64_t session, const absl::Status& why);
  // `sessions` are paid for by `payer`.
  void ReclaimNext(const std::string& payer, std::deque<uint64_t> sessions,
                   std::function<void()> tried) RUNS_ON(control_loop);

  // HostMemorySessions.
  bool HasSecret(uint64_t session, const std::string& secret) override RUNS_ON(control_loop);
  void OnHostMemory(const warpline_internal::HostMemoryRequest& request,
                    HostSegments::Answer answer) override RUNS_ON(control_loop);
  HostSegments::Result OnKeptMemory(const warpline_internal::HostMemoryRequest& request,
                                    std::vector<UniqueFd> memory) override RUNS_ON(control_loop);

  DeviceMemory* DeviceAt(int ordinal) const;
  // DeviceMemory::ReadOthers(), with the answer on the control loop.
  void ReadOthers(int ordinal, ContextMeasure::Answer answer);

  // Runs `body` on the control loop and waits for it.
  void OnControl(const std::function<void()>& body);

  SessionHostOptions options_;  // Constant once constructed.
  ServerBooks books_;
  SessionResources resources_;

  mutable Mutex mu_;
  CondVar idle_;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  // Sessions are passed on to another server, which new ones have to wait for.
  bool held_ ABSL_GUARDED_BY(mu_) = false;
  int live_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  // Those of sessions_, for channels' loops.
  std::map<uint64_t, std::shared_ptr<Session>> known_ ABSL_GUARDED_BY(mu_);
  // Those in the folder of saved sessions, and those that another version of the server has or had,
  // with their secrets.
  std::map<uint64_t, std::string> away_ ABSL_GUARDED_BY(mu_);
  // The numbers, by their secrets, of sessions that other servers had: their clients may know them
  // by other numbers.
  absl::flat_hash_map<std::string, uint64_t> numbers_ ABSL_GUARDED_BY(mu_);
  // The secrets of sessions that ended here when a checkpoint had them: their clients wait.
  absl::flat_hash_set<std::string> checkpointed_ ABSL_GUARDED_BY(mu_);
  // Null while leases do not move.
  std::shared_ptr<const MoveServices> moves_with_ ABSL_GUARDED_BY(mu_);
  CondVar moves_changed_;
  std::map<std::string, Move> moves_ ABSL_GUARDED_BY(mu_);  // By lease.
  // Where sessions have moved, by their secrets, for as long as their clients may look for them
  // here.
  absl::flat_hash_map<std::string, Gone> gone_ ABSL_GUARDED_BY(mu_);
  // The moves (LeaseToken::move) whose tickets were shown here, with the time until which that is
  // remembered.
  absl::flat_hash_map<uint64_t, absl::Time> used_tickets_ ABSL_GUARDED_BY(mu_);
  int arriving_ ABSL_GUARDED_BY(mu_) = 0;

  std::map<uint64_t, std::shared_ptr<Session>> sessions_ ABSL_GUARDED_BY(control_loop);
  // Those of saved sessions, whose leases are not idle.
  std::vector<LeaseMembership> kept_ ABSL_GUARDED_BY(control_loop);
  std::vector<int> sessions_on_device_ ABSL_GUARDED_BY(control_loop);
  ReturnWaits return_waits_ ABSL_GUARDED_BY(control_loop);
  Residency residency_ ABSL_GUARDED_BY(control_loop);
  IdleWatch idle_watch_ ABSL_GUARDED_BY(control_loop);

  // Ended in reverse: what posts to a loop goes before it.
  EventLoop control_{"control", &control_loop};
  std::vector<std::unique_ptr<DeviceMemory>> devices_;
  // Posts to the control loop.
  std::unique_ptr<ModuleCache> modules_;
  SessionChildren children_;
  HostMemoryPort host_memory_port_ ABSL_GUARDED_BY(control_loop);
  // Where the folder of saved sessions is used. It and the control loop post to each other, unless
  // the host is about to go.
  std::atomic<bool> stopping_{false};
  EventLoop disk_{"saved-sessions"};
  // Where sessions are sent to other servers, and where they are received. Both post to the control
  // loop.
  MoveStop move_stop_;
  EventLoop moves_out_{"moves-out"};
  EventLoop moves_in_{"moves-in"};
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_HOST_H_
