// An annotated reader-writer lock.
#ifndef WARPLINE_COMMON_SHARED_MUTEX_H_
#define WARPLINE_COMMON_SHARED_MUTEX_H_

#include <pthread.h>

#include "absl/base/thread_annotations.h"

namespace warpline {

// A thread that waits for the lock alone goes before threads that ask later to share it. It is not
// reentrant, not even when shared.
class ABSL_LOCKABLE SharedMutex {
 public:
  SharedMutex() {
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    // std::shared_mutex would let readers starve writers.
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&lock_, &attributes);
    pthread_rwlockattr_destroy(&attributes);
  }
  ~SharedMutex() { pthread_rwlock_destroy(&lock_); }
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { pthread_rwlock_wrlock(&lock_); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { pthread_rwlock_unlock(&lock_); }
  void LockShared() ABSL_SHARED_LOCK_FUNCTION() { pthread_rwlock_rdlock(&lock_); }
  void UnlockShared() ABSL_UNLOCK_FUNCTION() { pthread_rwlock_unlock(&lock_); }

 private:
  pthread_rwlock_t lock_;
};

// Holds a SharedMutex exclusively for a scope.
class ABSL_SCOPED_LOCKABLE ExclusiveMutexLock {
 public:
  explicit ExclusiveMutexLock(SharedMutex* mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) {
    mu_->Lock();
  }
  ~ExclusiveMutexLock() ABSL_UNLOCK_FUNCTION() { mu_->Unlock(); }
  ExclusiveMutexLock(const ExclusiveMutexLock&) = delete;
  ExclusiveMutexLock& operator=(const ExclusiveMutexLock&) = delete;

 private:
  SharedMutex* const mu_;
};

// Holds a SharedMutex shared with other readers for a scope.
class ABSL_SCOPED_LOCKABLE SharedMutexLock {
 public:
  explicit SharedMutexLock(SharedMutex* mu) ABSL_SHARED_LOCK_FUNCTION(mu) : mu_(mu) {
    mu_->LockShared();
  }
  ~SharedMutexLock() ABSL_UNLOCK_FUNCTION() { mu_->UnlockShared(); }
  SharedMutexLock(const SharedMutexLock&) = delete;
  SharedMutexLock& operator=(const SharedMutexLock&) = delete;

 private:
  SharedMutex* const mu_;
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_SHARED_MUTEX_H_
