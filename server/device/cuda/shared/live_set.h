// The objects of one kind that a context of a shared device has made and not yet destroyed.
//
//   if (result == CUDA_SUCCESS) events_.Add(event);
//   ...
//   if (!events_.Remove(event)) return CudaResult::kInvalidHandle;
//   ...
//   for (const EventId event : events_.TakeAll()) api_->p_cuEventDestroy(Native(event));
#ifndef WARPLINE_SERVER_DEVICE_CUDA_SHARED_LIVE_SET_H_
#define WARPLINE_SERVER_DEVICE_CUDA_SHARED_LIVE_SET_H_

#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace warpline::device {

// Thread-safe. A set that does not track takes no lock in Add() and Remove(), and remembers
// nothing. It serves a context that has its process to itself, whose objects end with the process.
template <typename Id>
class LiveSet {
 public:
  explicit LiveSet(bool tracks) : tracks_(tracks) {}
  LiveSet(const LiveSet&) = delete;
  LiveSet& operator=(const LiveSet&) = delete;

  void Add(const Id& id) {
    if (!tracks_) return;
    MutexLock lock(&mu_);
    live_.insert(id);
  }
  // Removes the object. Returns true if the caller, and only it, may now destroy the object. A set
  // that does not track returns true for every object.
  bool Remove(const Id& id) {
    if (!tracks_) return true;
    MutexLock lock(&mu_);
    return live_.erase(id) != 0;
  }
  // Removes and returns all objects, for the caller to destroy. Empty if the set does not track.
  std::set<Id> TakeAll() {
    MutexLock lock(&mu_);
    return std::exchange(live_, {});
  }

 private:
  const bool tracks_;
  Mutex mu_;
  std::set<Id> live_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::device

#endif  // WARPLINE_SERVER_DEVICE_CUDA_SHARED_LIVE_SET_H_
