// How one thread waits for what others do, and is woken. It is an event count of one waiter and
// many wakers:
//
//   waiter                                 waker
//   progress.Await([&] {                   completed.store(9);
//     return completed.load() >= 9;        progress.Notify();
//   });
//
// Sequentially consistent accesses keep a wake-up from being lost: the waiter says that it waits
// before it looks, and a waker changes what it looks at before it asks whether anyone waits. While
// nobody waits, Notify() is one load. A worker's decoder waits for its executors in this way.
#ifndef WARPLINE_COMMON_PROGRESS_H_
#define WARPLINE_COMMON_PROGRESS_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "common/mutex.h"

namespace warpline {

// Thread-safe. No lock is held while a condition is evaluated, and Notify() may be called under any
// lock.
class Progress {
 public:
  // Returns once `done` returns true. What `done` reads is changed by read-modify-write operations
  // or stores that are sequentially consistent, or under a lock that it takes, and each change is
  // followed by Notify(). One thread at a time waits.
  void Await(const std::function<bool()>& done) { AwaitFor(absl::InfiniteDuration(), done); }
  // Does the same for at most `most`. Returns false when that has passed without it.
  bool AwaitFor(absl::Duration most, const std::function<bool()>& done);
  // Has the waiting thread, if there is one, look at its condition again.
  void Notify() {
    if (waiting_.load(std::memory_order_seq_cst)) Wake();
  }

 private:
  void Wake();
  // Waits until something was notified after `seen` changes, or until the deadline has passed, and
  // then returns false.
  bool AwaitChange(uint64_t seen, absl::Time deadline);

  std::atomic<bool> waiting_{false};
  Mutex mu_;
  CondVar woken_;
  uint64_t changes_ ABSL_GUARDED_BY(mu_) = 0;  // Counted while a thread waits.
};

}  // namespace warpline

#endif  // WARPLINE_COMMON_PROGRESS_H_
