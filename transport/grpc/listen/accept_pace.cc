#include "transport/grpc/listen/accept_pace.h"

#include <algorithm>

#include "common/steady_time.h"

namespace warpline::grpc_internal {

void AcceptPace::Quicken() {
  MutexLock lock(&mu_);
  quick_until_ = SteadyNow() + kQuickFor;
  changed_.NotifyAll();
}

void AcceptPace::Pause() {
  MutexLock lock(&mu_);
  const absl::Time begin = SteadyNow();
  for (absl::Time now = begin;; now = SteadyNow()) {
    const absl::Time end = begin + (now < quick_until_ ? kQuick : kSlow);
    if (now >= end) return;
    changed_.WaitWithTimeout(&mu_, end - now);
  }
}

}  // namespace warpline::grpc_internal
