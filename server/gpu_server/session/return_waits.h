// Requests that wait for memory which comes back by itself.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_RETURN_WAITS_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_RETURN_WAITS_H_

#include <cstdint>
#include <functional>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "server/hostlink/process/control_loop.h"
#include "server/hostlink/process/timers.h"

namespace warpline::server {

class ReturnWaits {
 public:
  // `timers` is borrowed.
  explicit ReturnWaits(Timers* timers) : timers_(timers) {}

  // Calls `again` once: at the next Wake(), or after `most`. Not from within.
  void Add(absl::Duration most, std::function<void()> again) RUNS_ON(control_loop);
  // Some memory may have come back, or does not come back after all. Those who are called may wait
  // again.
  void Wake() RUNS_ON(control_loop);

 private:
  struct Waiting {
    std::function<void()> again;
    Timers::Token timer = 0;
  };

  Timers* const timers_;
  std::map<uint64_t, Waiting> waiting_ ABSL_GUARDED_BY(control_loop);  // In order.
  uint64_t last_ ABSL_GUARDED_BY(control_loop) = 0;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_RETURN_WAITS_H_
