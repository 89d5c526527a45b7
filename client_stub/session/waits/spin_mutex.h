// A Mutex for sections of some tens of nanoseconds: a thread that finds it locked tries for a
// moment before it sleeps.
#ifndef WARPLINE_CLIENT_STUB_SESSION_WAITS_SPIN_MUTEX_H_
#define WARPLINE_CLIENT_STUB_SESSION_WAITS_SPIN_MUTEX_H_

#include "absl/base/thread_annotations.h"
#include "client_stub/session/waits/one_shot.h"
#include "common/mutex.h"

namespace warpline::stub {

class ABSL_LOCKABLE SpinMutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (int i = 0; i < 64; ++i) {
      if (mu_.TryLock()) return;
      for (int j = 0; j < 4; ++j) CpuPause();
    }
    mu_.Lock();
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() ABSL_NO_THREAD_SAFETY_ANALYSIS { mu_.Unlock(); }

 private:
  Mutex mu_;
};

class ABSL_SCOPED_LOCKABLE SpinMutexLock {
 public:
  explicit SpinMutexLock(SpinMutex* mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_->Lock(); }
  ~SpinMutexLock() ABSL_UNLOCK_FUNCTION() { mu_->Unlock(); }
  SpinMutexLock(const SpinMutexLock&) = delete;
  SpinMutexLock& operator=(const SpinMutexLock&) = delete;

 private:
  SpinMutex* const mu_;
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_WAITS_SPIN_MUTEX_H_
