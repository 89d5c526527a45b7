#include "server/worker/memory/arena_book.h"

#include <algorithm>
#include <iterator>

namespace warpline::worker {

void ArenaBook::Add(uint64_t base, uint64_t bytes) {
  if (bytes == 0) return;
  ExclusiveMutexLock lock(&mu_);
  arenas_[base] = bytes;
  first_.store(std::min(first_.load(), base));
  last_.store(std::max(last_.load(), base + (bytes - 1)));
  size_.store(arenas_.size(), std::memory_order_release);
}

void ArenaBook::Remove(uint64_t base) {
  ExclusiveMutexLock lock(&mu_);
  arenas_.erase(base);
  size_.store(arenas_.size(), std::memory_order_release);
}

bool ArenaBook::Holds(uint64_t address) const {
  if (address < first_.load(std::memory_order_relaxed) ||
      address > last_.load(std::memory_order_relaxed)) {
    return false;
  }
  SharedMutexLock lock(&mu_);
  const auto next = arenas_.upper_bound(address);
  if (next == arenas_.begin()) return false;
  const auto& [base, bytes] = *std::prev(next);
  return address - base < bytes;
}

}  // namespace warpline::worker
