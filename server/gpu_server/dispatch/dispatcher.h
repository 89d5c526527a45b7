// Divides the server's GPUs among sessions: has a seat for each, and a thread that looks after
// those that share a GPU with others.
//
//   auto dispatcher = Dispatcher::Create(options);
//   if (!dispatcher.ok()) ...
//   auto seat = (*dispatcher)->Join({.gpus = {0}, .slice = "lease 7", .compute_weight = 3});
//   if (!seat.ok()) ...
//   <pass (*seat)->fd() to the session's worker>
//   ... (*seat)->usage() ...
//   seat->reset();  // The session is over.
//
// While a GPU has the sessions of one slice only, nobody looks at it, unless the policy wants to be
// asked always. While others have it, too,
// and at most one of them works, the thread looks every millisecond, or every ten when nobody has
// worked for a while; and every 100 us while two want the
// same engine, or 40 us between two turns.
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
#include "server/gpu_server/dispatch/dispatch_seat.h"
#include "server/gpu_server/dispatch/engine_arbiter.h"
#include "server/gpu_server/dispatch/flight_recorder.h"
#include "server/gpu_server/dispatch/gpu_dispatch.h"
#include "server/gpu_server/dispatch/gpu_use.h"
#include "server/hostlink/dispatch_page/dispatch_page.h"

namespace warpline::dispatch {

// Microseconds of CLOCK_REALTIME.
int64_t RealTimeUs();

struct DispatcherOptions {
  std::string policy = "band";  // As MakePolicy() of policy/builtin.h takes it.
  ArbiterOptions arbiter;
  // A policy that has everybody wait for an engine for so long, or for longer if it says so
  // (policy::Wishes), is replaced by BAND.
  absl::Duration patience = absl::Milliseconds(80);
  // Told of that, with the reason, on the dispatcher's thread. May call the dispatcher. Null for
  // nobody.
  std::function<void(const std::shared_ptr<policy::Policy>& failed, const std::string& why)>
      policy_failed;
  // By which workers go, too.
  int64_t (*clock)() = &MonotonicNs;
  // CLOCK_REALTIME, by which the driver goes.
  int64_t (*wall_clock_us)() = &RealTimeUs;
  // Without it LookNow() is called instead; for tests.
  bool has_thread = true;
};

// Thread-safe. All seats leave before it is destroyed.
class Dispatcher {
 public:
  // INVALID_ARGUMENT for a policy that there is not, RESOURCE_EXHAUSTED without a thread.
  static absl::StatusOr<std::unique_ptr<Dispatcher>> Create(DispatcherOptions options);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // RESOURCE_EXHAUSTED when the system has no descriptors or memory left.
  absl::StatusOr<std::unique_ptr<DispatchSeat>> Join(SeatTerms terms);

  // Asks this policy from now on, and gives back the former one, which is asked nothing any more.
  std::shared_ptr<policy::Policy> SetPolicy(std::shared_ptr<policy::Policy> policy);

  // The device's power and heat have been read: policies are told, and may have everybody wait.
  void SetPower(int ordinal, const DevicePower& power);

  // What is known of the use of the GPUs that are given in turns, by ordinal.
  std::map<int, GpuUse> Uses();
  // A session has used compute of this GPU for so long without having been given it: a debt of its
  // slice, and part of what it has used. Nothing where it is gone.
  void ChargeStolen(int ordinal, uint64_t session, int64_t stolen_ns);

  // What the policy says of what is no matter of an engine, as its hooks of policy/policy.h.
  // `tenant` is whom it knows the session's by (SeatTerms::tenant); the context's head is filled in
  // here.
  policy::Verdict AskSubmit(const std::string& tenant, int ordinal, uint64_t session,
                            policy::SubmitContext context);
  policy::Verdict AskMemFault(const std::string& tenant, policy::MemFaultContext context);
  policy::Verdict AskReclaim(const std::string& tenant, uint64_t session,
                             policy::ReclaimContext context);

  // What the GPUs' flight recorders have, by ordinal: of each at most `most` spans since the number
  // that `after` has for it (FlightRecorder::After). A GPU is there once it has had a session.
  std::map<int, TracePart> Trace(const std::map<int, uint64_t>& after, size_t most);

  // Looks at all GPUs, and returns when the next look is due.
  absl::Duration LookNow();

 private:
  friend class DispatchSeat;

  // A policy that was replaced, and why.
  struct Failure {
    std::shared_ptr<policy::Policy> policy;
    std::string why;
  };

  Dispatcher(DispatcherOptions options, std::shared_ptr<policy::Policy> policy)
      : options_(std::move(options)), policy_(std::move(policy)) {}
  void Leave(DispatchSeat* seat);
  void SetWorker(DispatchSeat* seat, pid_t pid, pid_t server);
  SeatUsage UsageOf(DispatchSeat* seat);
  // Says in `*failure` if it has replaced the policy.
  absl::Duration Look(Failure* failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  policy::ContextHead HeadOf(const std::string& tenant, uint64_t session) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Duration Patience() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<policy::Policy> Replace(std::shared_ptr<policy::Policy> policy)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run();

  const DispatcherOptions options_;
  Mutex mu_;  // A leaf: policies are called under it, and call nothing of the server's.
  CondVar changed_;
  std::shared_ptr<policy::Policy> policy_ ABSL_GUARDED_BY(mu_);  // Never null.
  std::map<int, GpuDispatch> gpus_ ABSL_GUARDED_BY(mu_);         // By ordinal.
  std::map<int, DevicePower> power_ ABSL_GUARDED_BY(mu_);        // Likewise.
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  bool slow_ ABSL_GUARDED_BY(mu_) = true;     // The thread sleeps for long.
  bool joined_ ABSL_GUARDED_BY(mu_) = false;  // Somebody has, since the last look.
  std::thread thread_;
};

}  // namespace warpline::dispatch

#endif  // WARPLINE_SERVER_GPU_SERVER_DISPATCH_DISPATCHER_H_
