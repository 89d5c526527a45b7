#include "common/progress.h"

namespace warpline {

void Progress::Await(const std::function<bool()>& done) {
  if (done()) return;
  waiting_.store(true, std::memory_order_seq_cst);
  while (true) {
    uint64_t seen;
    {
      MutexLock lock(&mu_);
      seen = changes_;
    }
    if (done()) break;
    MutexLock lock(&mu_);
    while (changes_ == seen) woken_.Wait(&mu_);
  }
  waiting_.store(false, std::memory_order_relaxed);
}

void Progress::Wake() {
  {
    MutexLock lock(&mu_);
    ++changes_;
  }
  woken_.NotifyOne();
}

}  // namespace warpline
