#include "common/progress.h"

#include "common/steady_time.h"

namespace warpline {

bool Progress::AwaitFor(absl::Duration most, const std::function<bool()>& done) {
  if (done()) return true;
  const absl::Time deadline = SteadyNow() + most;
  waiting_.store(true, std::memory_order_seq_cst);
  bool in_time = true;
  while (in_time) {
    uint64_t seen;
    {
      MutexLock lock(&mu_);
      seen = changes_;
    }
    if (done()) break;
    in_time = AwaitChange(seen, deadline);
  }
  waiting_.store(false, std::memory_order_relaxed);
  return in_time;
}

bool Progress::AwaitChange(uint64_t seen, absl::Time deadline) {
  MutexLock lock(&mu_);
  while (changes_ == seen) {
    if (deadline == absl::InfiniteFuture()) {
      woken_.Wait(&mu_);
      continue;
    }
    const absl::Duration left = deadline - SteadyNow();
    if (left <= absl::ZeroDuration()) return false;
    woken_.WaitWithTimeout(&mu_, left);
  }
  return true;
}

void Progress::Wake() {
  {
    MutexLock lock(&mu_);
    ++changes_;
  }
  woken_.NotifyOne();
}

}  // namespace warpline
