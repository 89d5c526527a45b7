// One client's session on the control side: its hello, its worker, its memory, its end.
//
// clang-format off
//   waiting   --hello-->                            opening
//   opening   --worker opened-->                    open
//   open      --worker died, nothing in flight-->   replacing
//   open      --worker died, work in flight-->      faulted
//   replacing --another worker took over-->         open
//   replacing --none could-->                       faulted
//   any       --channel closed, protocol error-->   ending
//   ending    --worker gone-->                      ended
// clang-format on
//
// An open or faulted session whose connection is lost waits, detached, for its client to resume.
#ifndef WARPLINE_SERVER_SESSION_SESSION_H_
#define WARPLINE_SERVER_SESSION_SESSION_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/log/keyed_log_budget.h"
#include "common/unique_fd.h"
#include "lease/entitlement.h"
#include "memory/arena_book.h"
#include "server/handover/counters.h"
#include "server/handover/journal_file.h"
#include "server/leases/lease_book.h"
#include "server/memory/device_memory.h"
#include "server/memory/host_segments.h"
#include "server/memory/session_devices.h"
#include "server/modules/module_cache.h"
#include "server/process/event_loop.h"
#include "server/session/client_absence.h"
#include "server/session/server_log.h"
#include "server/session/session_channel.h"
#include "server/session/session_port.h"
#include "server/session/task_shares.h"
#include "server/workers/memory_reader.h"
#include "server/workers/worker_pool.h"
#include "server/workers/worker_process.h"

namespace warpline {

struct SessionOptions {
  // How a worker is started.
  ChildOptions worker;
  // Workers of each device that wait for a session with everything done that does not depend on it.
  int warm_workers = 0;
  uint64_t max_arena_bytes = kMaxArenaBytes;
  // See Welcome and OpenWorker in proto/.
  uint64_t window_bytes = 16u << 20;
  uint64_t window_commands = 65536;
  // Of each ring between server and worker.
  uint64_t ring_bytes = 4u << 20;
  // A client that has not said hello by then is sent away.
  absl::Duration hello_timeout = absl::Seconds(10);
  // How long a session waits for a client that lost its connection. 0: not at all.
  absl::Duration resume_timeout = absl::ZeroDuration();
  // Where clients on this host may go on: the path of a unix socket, or none.
  std::string unix_socket;
  // See Welcome; empty where clients and workers share no memory.
  std::string host_memory_socket;
  // A worker that has not opened its device, or taken over a session, by then is given up.
  absl::Duration open_timeout = absl::Seconds(60);
  // For the client to take the fault that ended its session.
  absl::Duration fault_timeout = absl::Seconds(10);
  // Memory requests and returns that a client may have under way.
  int max_pending_requests = 64;
  SessionChannelOptions channel;
  std::string server_name;  // For clients' logs.
};

// What a session holds of one of its devices.
struct SessionDeviceSnapshot {
  int ordinal = 0;
  uint64_t quota_bytes = 0;
  uint64_t quota_used_bytes = 0;  // By all sessions that share the quota.
  uint64_t memory_bytes = 0;
};

// A session as `warpline ps` and `warpline stat` show it.
struct SessionSnapshot {
  uint64_t id = 0;
  std::string state;
  std::string program;
  uint32_t client_pid = 0;
  std::string client_boot_id;
  uint64_t client_pid_namespace = 0;
  std::string peer;
  // In the order of the session; none before they were chosen.
  std::vector<SessionDeviceSnapshot> devices;
  int worker_pid = 0;
  absl::Time since;
  Entitlement entitlement;
  std::string reason;  // Why it ends, once it does.
  // Of all devices together, as what follows.
  uint64_t quota_bytes = 0;
  uint64_t quota_used_bytes = 0;
  uint64_t memory_bytes = 0;
  uint64_t kept_bytes = 0;  // Returned, and kept until the worker is gone.
  uint64_t frames_received = 0;
  uint64_t frames_sent = 0;
  uint64_t commands = 0;
  uint64_t command_bytes = 0;
  uint64_t reply_bytes = 0;
  uint64_t memory_requests = 0;
  uint64_t memory_refused = 0;
  std::string memory_refusal;  // Why, the latest time.
  uint64_t resumes = 0;
  uint64_t transfers = 0;
  uint64_t frames_again = 0;
  uint64_t unacknowledged_bytes = 0;
  // Workers that took over from another.
  uint64_t restarts = 0;
  SessionUsage usage;
};

// Returned memory that sessions of a tenant keep of a device, or of one quota alone.
struct KeptMemory {
  const DeviceMemory* device = nullptr;
  // Other tenants are not held up for it, and what they keep was promised to them.
  std::string tenant;
  const Quota* quota = nullptr;  // Null for any.
};

// What a session needs of the server. Called on the control loop.
class SessionOwner {
 public:
  virtual ~SessionOwner() = default;
  // The devices for a session, counted until OnSessionEnded(); see PlaceSession().
  virtual absl::StatusOr<std::vector<DeviceMemory*>> Place(
      const std::vector<std::string>& wanted) = 0;
  // Has the workers of sessions replaced that keep some of `wanted`, and calls `tried` afterwards.
  // False when there is none. See SessionMemory.
  virtual bool Reclaim(const KeptMemory& wanted, std::function<void()> tried) = 0;
  // The session is over: worker gone, memory given back, channel closed.
  virtual void OnSessionEnded(uint64_t id, const std::vector<DeviceMemory*>& devices) = 0;
};

// The loops and counters that all sessions share. Borrowed, and outliving them.
struct SessionContext {
  const SessionOptions* options = nullptr;
  SessionOwner* owner = nullptr;
  EventLoop* control = nullptr;   // Sessions' state lives here.
  EventLoop* doorbell = nullptr;  // Waits for replies of workers whose channels are parked.
  EventLoop* spawner = nullptr;   // Starts processes.
  LeaseBook* leases = nullptr;
  ModuleCache* modules = nullptr;  // Null where none are kept.
  // What sessions share with their clients, all together.
  std::shared_ptr<Quota> host_memory;
  WorkerPool* pool = nullptr;
  TaskShares* tasks = nullptr;
  ShareBook* shares = nullptr;
  ServerCounters* counters = nullptr;
  KeyedLogBudget* log = nullptr;  // Of the kinds of server_log.h.
};

// Runs on the control loop, but for SessionControl, which posts to it. Shared by the owner's table,
// the channel's side, and callbacks under way.
class Session : public SessionControl,
                public WorkerEvents,
                public SessionDevicesHost,
                public MemoryReaderHost,
                public std::enable_shared_from_this<Session> {
 public:
  Session(const SessionContext& context, uint64_t id, std::string peer);

  // Ends an open session with an error for the application; any other just ends.
  void EndWithFault(CudaResult error, const std::string& message);
  SessionSnapshot Snapshot();
  // How much of `wanted` it keeps.
  uint64_t KeptBytes(const KeptMemory& wanted) const;
  // Before its client has said hello, that of nobody.
  const Entitlement& entitlement() const { return seat_.entitlement(); }
  // Thread-safe.
  const std::shared_ptr<SessionPort>& port() const { return port_; }
  // Thread-safe. Compares in constant time.
  bool HasSecret(const std::string& secret) const;

  // SessionControl.
  void OnHello(warpline_internal::Hello hello) override;
  void OnMemoryRequest(warpline_internal::MemoryRequest request) override;
  void OnMemoryReturn(warpline_internal::MemoryReturn request) override;
  void OnProtocolError(const absl::Status& status) override;
  void OnWorkerGarbage(const absl::Status& status) override;
  void OnResumed(bool moved) override;
  void OnChannelClosed(const absl::Status& status) override;
  bool TryCountRequest() override;
  void OnReadMemory(warpline_internal::ReadBack request) override;

  // The client asks for host memory, or gives some back. Control loop.
  void OnHostMemory(const warpline_internal::HostMemoryRequest& request,
                    HostSegments::Answer answer);

  // Has another worker take over once nothing is in flight, `done` within the deadline: OK, or why
  // not. Control loop.
  void ReplaceWorker(absl::Duration deadline, std::function<void(absl::Status)> done);

  // WorkerEvents.
  void OnWorkerPrepared(const warpline_internal::WorkerOpened& prepared) override;
  void OnWorkerOpened(const warpline_internal::WorkerOpened& opened) override;
  void OnMemoryDone(const warpline_internal::MemoryDone& done) override;
  void OnVariablesSaved(const warpline_internal::VariablesSaved& saved) override;
  void OnCharge(const warpline_internal::ChargeMemory& charge) override;
  void OnUncharge(const warpline_internal::UnchargeMemory& uncharge) override;
  void OnFindModule(const warpline_internal::FindModule& find) override;
  void OnKeepModule(const warpline_internal::KeepModule& keep, UniqueFd image) override;
  void OnHostDone(const warpline_internal::MemoryDone& done) override;
  void OnWorkerDied(const std::string& why) override;
  void OnWorkerGone() override;

  // SessionDevicesHost.
  void TakeChunks(DeviceMemory* device, uint64_t min_bytes, uint64_t want_bytes,
                  uint64_t largest_bytes, SessionMemoryHost::Taken taken) override;
  bool Reclaim(const DeviceMemory* device, const Quota* quota,
               std::function<void()> tried) override;
  absl::Status SendToWorker(const warpline_internal::ToWorker& message,
                            absl::Span<const int> fds) override;
  void OnGrant(warpline_internal::MemoryGrant grant) override;
  void OnRequestDone() override;
  // For reports: no line in the log, since allocators try again as a matter of course.
  void NoteRefusedMemory(const std::string& why);
  void OnBadReturn(const absl::Status& status) override;

  // MemoryReaderHost.
  std::shared_ptr<WorkerProcess> TakeReader(WorkerEvents* events) override;
  void MapForReader(std::function<void(CudaResult)> done) override;
  void OnReadAnswered(warpline_internal::ReadBackDone done, std::string data) override;
  void OnReaderGone() override;
  LogPermit AskForReaderLine() override { return AskForLine(kReaderLine); }

 private:
  enum class State { kWaiting, kOpening, kOpen, kReplacing, kFaulted, kEnding, kEnded };

  void HandleHello();
  void HandleChannelClosed(const absl::Status& status);
  // Whether the session waits for its client after such an end of its channel.
  bool MayResume(const absl::Status& status) const;
  void Detach(const absl::Status& status);
  void FaultTimedOut();
  absl::Status CheckHello();
  absl::Status TakeSeat();
  absl::Status TakePlace();
  void OpenDevices();
  void StartWorker();
  // Ends the worker, or gives it back if nothing of the session has reached it.
  void LetGoOfWorker();
  void Welcome(warpline_internal::MemoryGrant grant);
  void WatchDoorbell();
  void UnwatchDoorbell();
  WorkerDevice WorkersDevice() const;
  warpline_internal::OpenWorker OpenMessage() const;
  // The session is open or about to be again.
  bool Serving() const { return state_ == State::kOpen || state_ == State::kReplacing; }
  // Why the session, with these JournalFlags, cannot outlive its worker; empty when it can.
  std::string WhyNotReplaceable(uint32_t flags) const;
  void BeginReplacing(const std::string& why);
  void TakeOver();
  void FinishReplacing(CudaResult result);
  void AnswerReplace(const absl::Status& status);
  void PollForReplace(absl::Time deadline);
  void SaveVariables();
  bool AwaitsSaved(uint64_t id) const;
  void GiveUpReplacing(const absl::Status& status);
  // Sends the client away with `status` and ends.
  void Refuse(const absl::Status& status);
  void ProtocolError(const absl::Status& status);
  void LoseWorker(const std::string& why);
  // For a worker that lives but breaks the protocol: it gets no successor.
  void DistrustWorker(const std::string& why);
  void SendFault(CudaResult error, const std::string& message, bool keep_memory);
  void End(const std::string& reason);
  void MaybeFinish();
  // Whether the log has room for a line of this session's tenant or peer.
  LogPermit AskForLine(ServerLine line) const;
  LogPermit AskForLastLine() const;
  // "session=7 gpu=0,1 pid=123"
  std::string Keys() const;

  const SessionContext context_;
  const uint64_t id_;
  const std::string peer_;
  const absl::Time since_;
  const std::string secret_;
  const std::shared_ptr<SessionPort> port_;

  // Requests and returns not yet done. Raised by the channel's loop.
  std::atomic<int> pending_requests_{0};

  // Of the control loop.
  State state_ = State::kWaiting;
  warpline_internal::Hello hello_;
  bool resumable_ = false;
  ClientAbsence absence_;
  uint64_t resumes_ = 0;
  uint64_t transfers_ = 0;
  uint32_t version_ = 0;
  LeaseSeat seat_;
  // As placed, until the end.
  std::vector<DeviceMemory*> placed_;
  SessionDevices devices_;
  TaskShares::Share tasks_;
  // As Welcome.peers.
  std::vector<uint32_t> peers_;
  HostSegments host_segments_;
  std::shared_ptr<WorkerRings> rings_;
  std::shared_ptr<WorkerProcess> worker_;
  std::unique_ptr<JournalFile> journal_;
  // For a session that lost its worker and kept its memory.
  std::shared_ptr<MemoryReader> reader_;
  std::function<void(absl::Status)> replace_done_;
  EventLoop::Token replace_timer_ = 0;
  // What the worker that is replaced had in module variables; otherwise there is none.
  UniqueFd saved_variables_;
  uint64_t save_id_ = 0;
  uint64_t restarts_ = 0;
  uint64_t resume_seq_ = 0;
  bool taking_over_ = false;
  int take_overs_failed_ = 0;
  // The worker whose FindModule is not answered yet.
  const WorkerProcess* finding_for_ = nullptr;
  int keeping_modules_ = 0;
  // Of the doorbell loop, once it is there.
  std::shared_ptr<std::array<EventLoop::Token, 2>> doorbell_watches_;
  EventLoop::Token timer_ = 0;
  bool worker_gone_ = true;
  bool awaiting_initial_memory_ = false;
  int takes_under_way_ = 0;
  int worker_pid_ = 0;
  std::string reason_;
  std::string memory_refusal_;  // Why memory was refused, the latest time.
  // For the first line that says that there is this session, asked for once it has a device.
  LogPermit first_line_;
  bool said_opened_ = false;
  // The session's worker says nothing, because there is no room for its lines.
  bool quiet_ = false;
};

}  // namespace warpline

#endif  // WARPLINE_SERVER_SESSION_SESSION_H_
