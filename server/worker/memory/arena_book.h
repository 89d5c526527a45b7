// The arenas of the sessions that a process has on its devices.
#ifndef WARPLINE_SERVER_WORKER_MEMORY_ARENA_BOOK_H_
#define WARPLINE_SERVER_WORKER_MEMORY_ARENA_BOOK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "common/shared_mutex.h"

namespace warpline::worker {

// Thread-safe.
class ArenaBook {
 public:
  ArenaBook() = default;
  ArenaBook(const ArenaBook&) = delete;
  ArenaBook& operator=(const ArenaBook&) = delete;

  // A session has [base, base + bytes) from now on, which overlaps with no other's.
  void Add(uint64_t base, uint64_t bytes);
  // The session that had the range at `base` has ended.
  void Remove(uint64_t base);

  // How many there are; takes no lock.
  size_t size() const { return size_.load(std::memory_order_acquire); }
  // Whether `address` lies in one of them. What is below the first or above the last takes no lock.
  bool Holds(uint64_t address) const;

 private:
  std::atomic<size_t> size_{0};
  std::atomic<uint64_t> first_{~uint64_t{0}};                 // The least address of any ever,
  std::atomic<uint64_t> last_{0};                             // and the largest.
  mutable SharedMutex mu_;                                    // No other lock is taken under it.
  std::map<uint64_t, uint64_t> arenas_ ABSL_GUARDED_BY(mu_);  // Sizes by addresses
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_MEMORY_ARENA_BOOK_H_
