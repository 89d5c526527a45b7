// What a session holds in its worker: memory of its devices, and host memory that it shares with
// its client. Both outlive the worker.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_HOLDINGS_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_HOLDINGS_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/cuda/cuda_result.h"
#include "memory/quota.h"
#include "proto/session.pb.h"
#include "proto/worker.pb.h"
#include "server/gpu_server/children/workers/host_window.h"
#include "server/gpu_server/children/workers/worker_link.h"
#include "server/gpu_server/continuity/worker_place.h"
#include "server/gpu_server/memory/charge_book.h"
#include "server/gpu_server/memory/host_segments.h"
#include "server/gpu_server/memory/kept_segments.h"
#include "server/gpu_server/memory/session_devices.h"
#include "server/gpu_server/memory/session_window.h"
#include "server/gpu_server/session/session_client.h"
#include "server/gpu_server/session/session_snapshot.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

// Lives until nothing is being taken any more.
class SessionHoldings : public Survivor {
 public:
  // What it needs around it. All borrowed, but for the quota of host memory, which all sessions
  // share.
  struct Parts {
    EventLoop* control = nullptr;
    WorkerLink* worker = nullptr;
    HostWindowSource* windows = nullptr;
    SessionClient* client = nullptr;
    MemoryReclaimer* reclaimer = nullptr;
    std::shared_ptr<Quota> host_memory;
    // Called after each answer of a device to a request for chunks.
    std::function<void()> taken;
  };

  explicit SessionHoldings(const Parts& parts);

  // Empty before Open(), to be called once.
  SessionDevices& devices() RUNS_ON(control_loop) { return devices_; }
  const SessionDevices& devices() const RUNS_ON(control_loop) { return devices_; }
  HostSegments& host_segments() RUNS_ON(control_loop) { return host_segments_; }
  SessionWindow& window() RUNS_ON(control_loop) { return window_; }
  // Takes `own_bytes` of host memory for the session from `quota`, of which its worker is given the
  // more that it asks for. False when that is not left. Called once.
  bool TakeHostMemory(std::shared_ptr<Quota> quota, uint64_t own_bytes) RUNS_ON(control_loop);
  // The session was given so much more of it by another server. Returns false beyond the quota.
  bool AdoptHostCharge(uint64_t bytes) RUNS_ON(control_loop) {
    return host_charges_->Replace(bytes);
  }
  // What the worker was given.
  uint64_t host_charged_bytes() const RUNS_ON(control_loop) {
    return host_charges_.has_value() ? host_charges_->bytes() : 0;
  }

  // --- Survivor.
  void Suspend() override RUNS_ON(control_loop);
  void MapAgain(std::function<void(CudaResult)> done) override RUNS_ON(control_loop);
  // Has a worker map what the devices have, to be read, and nothing else done with it.
  void MapForReader(std::function<void(CudaResult)> done) RUNS_ON(control_loop);
  // The session has failed: what was asked for is not done any more.
  void Abandon() RUNS_ON(control_loop);
  // The worker is gone: everything goes back.
  // Returns what outlives the session.
  KeptSegments End() RUNS_ON(control_loop);

  // --- What the worker says. INVALID_ARGUMENT when it breaks the protocol; any other error when
  // the session cannot go on with it. The texts are for logs and the client.
  absl::Status OnMemoryDone(const warpline_internal::MemoryDone& done) RUNS_ON(control_loop);
  absl::Status OnHostDone(const warpline_internal::MemoryDone& done) RUNS_ON(control_loop);
  absl::Status OnCharge(const warpline_internal::ChargeMemory& charge) RUNS_ON(control_loop);
  // Of a worker that takes over; see SessionMemory::Recharge(). RESOURCE_EXHAUSTED beyond the
  // quota.
  absl::Status OnTakenOver(const warpline_internal::WorkerOpened& opened) RUNS_ON(control_loop);
  absl::Status OnUncharge(const warpline_internal::UnchargeMemory& uncharge) RUNS_ON(control_loop);

  // Fills `devices` and `memory`.
  void Describe(SessionSnapshot* snapshot) const RUNS_ON(control_loop);

 private:
  CudaResult Charge(const warpline_internal::ChargeMemory& charge) RUNS_ON(control_loop);
  bool Uncharge(const warpline_internal::UnchargeMemory& uncharge) RUNS_ON(control_loop);

  WorkerLink* const worker_;
  SessionClient* const client_;
  SessionDevices devices_ ABSL_GUARDED_BY(control_loop);
  HostSegments host_segments_ ABSL_GUARDED_BY(control_loop);
  SessionWindow window_ ABSL_GUARDED_BY(control_loop);
  Reservation own_host_memory_ ABSL_GUARDED_BY(control_loop);
  std::optional<ChargeBook> host_charges_ ABSL_GUARDED_BY(control_loop);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SESSION_HOLDINGS_H_
