// Values that libraries above the driver attach to a context, each under a key of its own
// (CONTEXT_LOCAL_STORAGE). The runtime looks one up in every call that it makes.
//
// Thread-safe. Get() of a value that this thread got before, with no change to any storage since,
// takes no lock. No lock is held while a destructor runs.
#ifndef WARPLINE_CLIENT_STUB_PRIVATE_TABLES_CONTEXT_STORAGE_H_
#define WARPLINE_CLIENT_STUB_PRIVATE_TABLES_CONTEXT_STORAGE_H_

#include <cstdint>
#include <map>
#include <utility>

#include "common/mutex.h"
#include "cuda.h"

namespace warpline {

class ContextStorage {
 public:
  using Destructor = void (*)(CUcontext context, void* key, void* value);

  ContextStorage() = default;
  ContextStorage(const ContextStorage&) = delete;
  ContextStorage& operator=(const ContextStorage&) = delete;
  ~ContextStorage();  // Runs no destructors.

  // Replaces an earlier value without running its destructor. `destructor` may be nullptr.
  void Put(CUcontext context, void* key, void* value, Destructor destructor);

  // Returns false, and leaves *value unchanged, if there is none.
  bool Get(CUcontext context, void* key, void** value);

  // Runs no destructor. Returns false if there was none.
  bool Delete(CUcontext context, void* key);

  // Drops all values of the context and runs their destructors on this thread.
  void Forget(CUcontext context);

  // For pthread_atfork(): they ensure that the child finds the lock free.
  void LockForFork() ABSL_EXCLUSIVE_LOCK_FUNCTION(mu_) { mu_.Lock(); }
  void UnlockAfterFork() ABSL_UNLOCK_FUNCTION(mu_) { mu_.Unlock(); }

 private:
  struct Entry {
    void* value;
    Destructor destructor;
  };
  using Key = std::pair<uintptr_t, uintptr_t>;  // Context, key.

  Mutex mu_;
  std::map<Key, Entry> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline

#endif  // WARPLINE_CLIENT_STUB_PRIVATE_TABLES_CONTEXT_STORAGE_H_
