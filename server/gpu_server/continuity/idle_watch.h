// Finds the sessions that have done nothing for some time, so that they can be suspended.
#ifndef WARPLINE_SERVER_GPU_SERVER_CONTINUITY_IDLE_WATCH_H_
#define WARPLINE_SERVER_GPU_SERVER_CONTINUITY_IDLE_WATCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/timers.h"

namespace warpline::server {

// An open session at this moment.
struct SessionProgress {
  uint64_t session = 0;
  uint64_t done = 0;  // Grows with all that it does.
  bool busy = false;  // Something of it is not complete.
};

class IdleWatch {
 public:
  // The functions are called on the control loop.
  struct Parts {
    Timers* timers = nullptr;
    // Returns those that could be suspended, without those that are already.
    std::function<std::vector<SessionProgress>()> sessions;
    // Called once for each time that a session has been idle for long enough.
    std::function<void(uint64_t session)> on_idle;
    // SteadyNow(), but in tests.
    std::function<absl::Time()> now = nullptr;
  };

  // A session counts as idle after `idle`, and is noticed at most an eighth of that later.
  IdleWatch(absl::Duration idle, Parts parts) : idle_(idle), parts_(std::move(parts)) {}
  IdleWatch(const IdleWatch&) = delete;
  IdleWatch& operator=(const IdleWatch&) = delete;

  // Looks from now on. Once.
  void Start() RUNS_ON(control_loop);
  // Does not look any more.
  void Stop() RUNS_ON(control_loop);

 private:
  struct Known {
    uint64_t done = 0;
    absl::Time since;   // It has done nothing since then.
    bool told = false;  // on_idle() was called, and it has done nothing since.
    bool there = false;
  };

  void Look() RUNS_ON(control_loop);

  const absl::Duration idle_;
  const Parts parts_;
  std::map<uint64_t, Known> known_ ABSL_GUARDED_BY(control_loop);
  Timers::Token timer_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_CONTINUITY_IDLE_WATCH_H_
