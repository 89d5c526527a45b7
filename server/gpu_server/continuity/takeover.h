// Has another worker take over a session from one that died or is to go.
//
// What the session holds is suspended, the former worker is ended if it still lives, and once it is
// gone the next one gets its place: it makes the session's objects again, maps what the session
// holds, and gets what waits. A worker that dies at that is followed by another, a few times.
#ifndef WARPLINE_SERVER_GPU_SERVER_CONTINUITY_TAKEOVER_H_
#define WARPLINE_SERVER_GPU_SERVER_CONTINUITY_TAKEOVER_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/cuda/cuda_result.h"
#include "common/unique_fd.h"
#include "server/gpu_server/continuity/worker_place.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/timers.h"

namespace warpline::server {

// What becomes of a takeover.
class TakeoverEvents {
 public:
  virtual ~TakeoverEvents() = default;
  // The next worker could not take what the session holds. Followed by OnWorkerDied().
  virtual void OnNextWorkerUseless(const std::string& why) RUNS_ON(control_loop) = 0;
  // The session goes on: commands go through already.
  virtual void OnTakenOver() RUNS_ON(control_loop) = 0;
  // Nobody could take over; `why` is for logs and the client. The place is frozen, and whoever has
  // it is not ended.
  virtual void OnTakeoverFailed(const std::string& why) RUNS_ON(control_loop) = 0;
};

class Takeover {
 public:
  // Of workers for one takeover; a journal that kills its workers must not go on for ever.
  static constexpr int kMostWorkers = 3;

  // All are borrowed. `timeout` is for the whole.
  Takeover(Timers* timers, WorkerPlace* place, Survivor* holdings, absl::Duration timeout,
           TakeoverEvents* events)
      : timers_(timers), place_(place), holdings_(holdings), timeout_(timeout), events_(events) {}
  Takeover(const Takeover&) = delete;
  Takeover& operator=(const Takeover&) = delete;

  // Nothing is in flight, or the worker is dead and what it took is complete. `why` says why
  // another has to take over; `variables` is what the former one saved of module variables, if it
  // did. Not while one is under way.
  void Begin(const std::string& why, UniqueFd variables) RUNS_ON(control_loop);
  // The session has ended or failed for another reason.
  void Forget() RUNS_ON(control_loop);

  bool under_way() const RUNS_ON(control_loop) { return phase_ != Phase::kNone; }
  // Up to this command the session is what the last takeover found done; 0 before the first.
  uint64_t resume_seq() const RUNS_ON(control_loop) { return resume_seq_; }
  // Those that succeeded.
  uint64_t count() const RUNS_ON(control_loop) { return count_; }

  // What the place's worker does, while one is under way.
  void OnWorkerOpened() RUNS_ON(control_loop);
  void OnWorkerDied(const std::string& why) RUNS_ON(control_loop);
  void OnWorkerGone() RUNS_ON(control_loop);

 private:
  enum class Phase {
    kNone,
    kFormer,   // The worker that was there is not gone yet.
    kOpening,  // The next one opens its device and makes the session's objects.
    kMapping,  // It takes what the session holds.
  };

  void TakeNext() RUNS_ON(control_loop);
  void OnMapped(CudaResult result) RUNS_ON(control_loop);
  void Fail(const std::string& why) RUNS_ON(control_loop);

  Timers* const timers_;
  WorkerPlace* const place_;
  Survivor* const holdings_;
  const absl::Duration timeout_;
  TakeoverEvents* const events_;
  Phase phase_ ABSL_GUARDED_BY(control_loop) = Phase::kNone;
  std::string why_ ABSL_GUARDED_BY(control_loop);
  UniqueFd variables_ ABSL_GUARDED_BY(control_loop);
  uint64_t resume_seq_ ABSL_GUARDED_BY(control_loop) = 0;
  uint64_t count_ ABSL_GUARDED_BY(control_loop) = 0;
  int lost_ ABSL_GUARDED_BY(control_loop) = 0;  // Of the workers that were to take over.
  Timers::Token timer_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CONTINUITY_TAKEOVER_H_
