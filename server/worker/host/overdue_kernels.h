// What becomes of a session on a shared device whose kernels do not end while others wait.
#ifndef WARPLINE_SERVER_WORKER_HOST_OVERDUE_KERNELS_H_
#define WARPLINE_SERVER_WORKER_HOST_OVERDUE_KERNELS_H_

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace warpline::worker {

// Lies between a context, which may say at any time that its kernels are overdue, and the session,
// which begins after the context and ends before it. Thread-safe.
class OverdueKernels {
 public:
  // From now on `end` is called when kernels are overdue; null for nothing any more, which waits
  // until no such call runs.
  void Ask(std::function<void()> end) {
    MutexLock lock(&mu_);
    end_ = std::move(end);
  }
  void Say() {
    MutexLock lock(&mu_);
    if (end_) end_();
  }

 private:
  Mutex mu_;  // Held during the call.
  std::function<void()> end_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_HOST_OVERDUE_KERNELS_H_
