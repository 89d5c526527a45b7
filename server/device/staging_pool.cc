#include "server/device/staging_pool.h"

#include <cstring>
#include <iterator>

namespace warpline::device {

StagingPool::StagingPool(void* start, size_t bytes) {
  MutexLock lock(&mu_);
  if (const size_t whole = bytes / kUnit * kUnit; whole > 0) {
    free_[static_cast<char*>(start)] = whole;
  }
}

void* StagingPool::Take(size_t bytes) {
  if (bytes == 0 || bytes > SIZE_MAX - kUnit) return nullptr;
  const size_t whole = (bytes + kUnit - 1) / kUnit * kUnit;
  MutexLock lock(&mu_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [at, room] = *it;
    if (room < whole) continue;
    free_.erase(it);
    if (room > whole) free_[at + whole] = room - whole;
    taken_[at] = whole;
    return at;
  }
  return nullptr;
}

void StagingPool::GiveBack(void* taken) {
  char* at = static_cast<char*>(taken);
  size_t bytes = 0;
  {
    MutexLock lock(&mu_);
    const auto found = taken_.find(at);
    if (found == taken_.end()) return;
    bytes = found->second;
    taken_.erase(found);
  }
  // It is in neither list meanwhile, so nobody else has it.
  std::memset(at, 0, bytes);
  MutexLock lock(&mu_);
  const auto next = free_.lower_bound(at);
  if (next != free_.end() && next->first == at + bytes) bytes += next->second;
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == at) {
      at = previous->first;
      bytes += previous->second;
    }
  }
  free_.erase(free_.lower_bound(at), free_.lower_bound(at + bytes));
  free_[at] = bytes;
}

size_t StagingPool::free_bytes() const {
  MutexLock lock(&mu_);
  size_t sum = 0;
  for (const auto& [at, bytes] : free_) sum += bytes;
  return sum;
}

}  // namespace warpline::device
