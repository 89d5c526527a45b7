// One client's session on the control side: its hello, its life, its end.
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
//
// The session decides; what it decides about are its parts: SessionWorker and SessionHoldings,
// which other workers take over (server/continuity/), SessionClient and ClientPresence.
#ifndef WARPLINE_SERVER_SESSION_SESSION_H_
#define WARPLINE_SERVER_SESSION_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/cuda/cuda_result.h"
#include "common/unique_fd.h"
#include "lease/entitlement.h"
#include "server/continuity/replacement.h"
#include "server/continuity/takeover.h"
#include "server/leases/lease_book.h"
#include "server/memory/device_memory.h"
#include "server/memory/host_segments.h"
#include "server/memory/memory_links.h"
#include "server/process/event_loop.h"
#include "server/session/client_presence.h"
#include "server/session/connection/session_channel.h"
#include "server/session/connection/session_port.h"
#include "server/session/lost_memory.h"
#include "server/session/session_client.h"
#include "server/session/session_holdings.h"
#include "server/session/session_lines.h"
#include "server/session/session_messages.h"
#include "server/session/session_modules.h"
#include "server/session/session_options.h"
#include "server/session/session_snapshot.h"
#include "server/session/session_worker.h"
#include "server/session/task_shares.h"

namespace warpline::server {

// Runs on the control loop, but for SessionControl, which posts to it. Shared by the owner's table,
// the channel's side, and callbacks under way.
class Session : public SessionControl,
                private SessionWorkerEvents,
                private TakeoverEvents,
                public std::enable_shared_from_this<Session> {
 public:
  Session(const SessionContext& context, uint64_t id, std::string peer);

  // Ends an open session with an error for the application; any other just ends.
  void EndWithFault(CudaResult error, const std::string& message);
  // Has another worker take over once nothing is in flight, `done` within the deadline: OK, or why
  // not.
  void ReplaceWorker(absl::Duration deadline, std::function<void(absl::Status)> done);
  // The client asks for host memory, or gives some back.
  void OnHostMemory(const warpline_internal::HostMemoryRequest& request,
                    HostSegments::Answer answer);

  SessionSnapshot Snapshot() const;
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
  void OnReadMemory(warpline_internal::ReadBack request) override;
  void OnProtocolError(const absl::Status& status) override;
  void OnWorkerGarbage(const absl::Status& status) override;
  void OnResumed(bool moved) override;
  void OnChannelClosed(const absl::Status& status) override;
  bool TryCountRequest() override { return client_.TryCount(); }

 private:
  enum class State { kWaiting, kOpening, kOpen, kReplacing, kFaulted, kEnding, kEnded };

  // SessionWorkerEvents.
  void OnWorkerOpened(const warpline_internal::WorkerOpened& opened) override;
  void OnVariablesSaved(const warpline_internal::VariablesSaved& saved) override;
  void OnWorkerLost(const std::string& why) override;
  void OnWorkerDistrusted(const std::string& why) override;
  void OnWorkerGone() override;

  // TakeoverEvents.
  void OnNextWorkerUseless(const std::string& why) override { NoteDeath(why); }
  void OnTakenOver() override;
  void OnTakeoverFailed(const std::string& why) override;

  // Opening.
  void HandleHello();
  absl::Status TakeSeat();
  absl::Status TakePlace();
  void OpenDevices();
  void StartWorker();
  void OpenTo(const warpline_internal::WorkerOpened& opened);
  void Welcome(warpline_internal::MemoryGrant grant);
  SessionFacts Facts() const;

  // The session is open or about to be again.
  bool Serving() const { return state_ == State::kOpen || state_ == State::kReplacing; }
  // Something of an open session is done on the loop. `body` is not called, and the request is
  // done, when the session is not open any more.
  void WhileServing(std::function<void()> body);
  void HandleRead(const warpline_internal::ReadBack& request);
  void BeginTakeover(const std::string& why, UniqueFd variables);
  void NoteDeath(const std::string& why);
  void SetTimer(absl::Duration delay, void (Session::*body)());
  void ClearTimer();

  // Ends.
  void HandleChannelClosed(const absl::Status& status);
  void OpenTimedOut();
  void FaultTimedOut();
  // Sends the client away with `status` and ends.
  void Refuse(const absl::Status& status);
  void ProtocolError(const absl::Status& status);
  void SendFault(CudaResult error, const std::string& message, bool keep_memory);
  void End(const std::string& reason);
  void MaybeFinish();
  // The same once whatever calls has returned.
  void FinishSoon();
  void SayClosed() const;

  const SessionContext context_;
  const uint64_t id_;
  const absl::Time since_;
  const std::string secret_;
  const std::shared_ptr<SessionPort> port_;

  // The rest is of the control loop.
  SessionLines lines_;
  ClientPresence presence_;
  SessionClient client_;
  const std::shared_ptr<SessionModules> modules_;
  SessionWorker worker_;
  SessionHoldings holdings_;
  LostMemory lost_memory_;
  Takeover takeover_;
  Replacement replacement_;

  State state_ = State::kWaiting;
  std::string reason_;
  warpline_internal::Hello hello_;
  WelcomeTerms terms_;
  LeaseSeat seat_;
  // As placed, until the end.
  std::vector<DeviceMemory*> placed_;
  TaskShares::Share tasks_;
  EventLoop::Token timer_ = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_SESSION_SESSION_H_
