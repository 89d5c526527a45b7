// Divides the server's GPUs among sessions. Each session has a registration, and one thread looks
// after the sessions that share a GPU with others.
//
//   auto dispatcher = Dispatcher::Create(options);
//   if (!dispatcher.ok()) ...
//   auto joined = (*dispatcher)->Join({.gpus = {0}, .slice = "lease 7", .compute_weight = 3});
//   if (!joined.ok()) ...
//   std::unique_ptr<DispatchRegistration> registration = *std::move(joined);
//   <pass registration->fd() to the session's worker>
//   ... registration->usage() ...
//   registration.reset();  // The session is over.
//
// The thread does not look at a GPU that has the sessions of one slice only, unless the policy
// wants to be asked always. It looks at a GPU of several slices every 10 ms when none has wanted an
// engine for a while, and every millisecond while at most one wants each engine. It looks every
// 100 us while an engine is given in turns, and every 40 us between two turns.
#ifndef WARPLINE_SERVER_GPU_SERVER_DISPATCH_DISPATCHER_H_
#define WARPLINE_SERVER_GPU_SERVER_DISPATCH_DISPATCHER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "policy/policy.h"
#include "server/gpu_server/dispatch/dispatch_registration.h"
#include "server/gpu_server/dispatch/engine_arbiter.h"
#include "server/gpu_server/dispatch/flight_recorder.h"
#include "server/gpu_server/dispatch/gpu_dispatch.h"
#include "server/gpu_server/dispatch/gpu_use.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::dispatch {

// Microseconds of CLOCK_REALTIME.
int64_t RealTimeUs();

struct DispatcherOptions {
  std::string policy = "band";  // A name for MakePolicy() of policy/builtin.h.
  ArbiterOptions arbiter;
  // A policy that makes all slices wait for an engine for this long is replaced by BAND. A policy
  // may ask for a longer time (policy::Wishes).
  absl::Duration patience = absl::Milliseconds(80);
  // Called with a policy that was replaced for that, and the reason, on the dispatcher's thread.
  // May call the dispatcher. May be null.
  std::function<void(const std::shared_ptr<policy::Policy>& failed, const std::string& why)>
      policy_failed;
  // The clock that workers use, too.
  int64_t (*clock)() = &MonotonicNs;
  // CLOCK_REALTIME, which the driver uses.
  int64_t (*wall_clock_us)() = &RealTimeUs;
  // False only in tests, which call LookNow() themselves.
  bool has_thread = true;
};

// Thread-safe. All registrations leave before it is destroyed.
class Dispatcher {
 public:
  // Fails with INVALID_ARGUMENT for an unknown policy, and with RESOURCE_EXHAUSTED if the thread
  // cannot be started.
  static absl::StatusOr<std::unique_ptr<Dispatcher>> Create(DispatcherOptions options);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Registers a session. Fails with RESOURCE_EXHAUSTED when the system has no
  // descriptors or memory left.
  absl::StatusOr<std::unique_ptr<DispatchRegistration>> Join(DispatchTerms terms);

  // Replaces the policy. Returns the old one, which the dispatcher does not call any more.
  std::shared_ptr<policy::Policy> SetPolicy(std::shared_ptr<policy::Policy> policy);

  // Notes a reading of the device's power and temperature. The policy is told and may make all
  // slices wait, or slow them down.
  void SetPower(int ordinal, const DevicePower& power);

  // Returns the known use of the GPUs that are given in turns, by ordinal.
  std::map<int, GpuUse> Uses();
  // Charges a session for `stolen_ns` of compute that it used on this GPU without having been given
  // it. The time becomes a debt of its slice and part of its usage. Does nothing if the session is
  // gone.
  void ChargeStolen(int ordinal, uint64_t session, int64_t stolen_ns);

  // Records a move of memory from or to this GPU, and charges the slice for the copies that caused
  // it: that of `wanted_by`, or, if the memory came back, its own.
  void AddMove(int ordinal, const MemoryMove& move);

  // These call the policy hooks that do not concern an engine (policy/policy.h). `tenant` is the
  // session's DispatchTerms::tenant. The dispatcher fills in the context's head.
  policy::Verdict AskSubmit(const std::string& tenant, int ordinal, uint64_t session,
                            policy::SubmitContext context);
  policy::Verdict AskMemFault(const std::string& tenant, policy::MemFaultContext context);
  policy::Verdict AskReclaim(const std::string& tenant, uint64_t session,
                             policy::ReclaimContext context);

  // Returns the records of the GPUs' flight recorders by ordinal. Each part has at most `most`
  // spans since the number that `after` has for the GPU (FlightRecorder::After). GPUs that never
  // had a session are left out.
  std::map<int, TracePart> Trace(const std::map<int, uint64_t>& after, size_t most);

  // Looks at all GPUs, and returns the time until the next look is due.
  absl::Duration LookNow();

 private:
  friend class DispatchRegistration;

  // A policy that was replaced, and why.
  struct Failure {
    std::shared_ptr<policy::Policy> policy;
    std::string why;
  };

  Dispatcher(DispatcherOptions options, std::shared_ptr<policy::Policy> policy)
      : options_(std::move(options)), policy_(std::move(policy)) {}
  void Leave(DispatchRegistration* registration);
  void SetWorker(DispatchRegistration* registration, pid_t pid, pid_t server);
  DispatchUsage UsageOf(DispatchRegistration* registration);
  // Fills `*failure` if it has replaced the policy.
  absl::Duration Look(Failure* failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  policy::ContextHead HeadOf(const std::string& tenant, uint64_t session) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Duration Patience() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the context of the device's last reading; `before_c` is the temperature before it, 0
  // for none.
  policy::ThermalContext HeatOf(int ordinal, int32_t before_c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns how long a verdict on a reading makes all slices wait; 0 if it does not.
  int64_t HoldOf(const policy::Verdict& verdict) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<policy::Policy> Replace(std::shared_ptr<policy::Policy> policy)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run();

  const DispatcherOptions options_;
  Mutex mu_;  // A leaf: policies are called under it, and call no function of the server.
  CondVar changed_;
  std::shared_ptr<policy::Policy> policy_ ABSL_GUARDED_BY(mu_);  // Never null.
  std::map<int, GpuDispatch> gpus_ ABSL_GUARDED_BY(mu_);         // By ordinal.
  std::map<int, DevicePower> power_ ABSL_GUARDED_BY(mu_);        // By ordinal.
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  bool slow_ ABSL_GUARDED_BY(mu_) = true;     // The thread's sleep is longer than a millisecond.
  bool joined_ ABSL_GUARDED_BY(mu_) = false;  // The thread need not sleep before its next look.
  std::thread thread_;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_DISPATCHER_H_
