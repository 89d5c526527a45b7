#include "client_stub/core/bulk/piece_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

namespace warpline::stub {
namespace {

// The device's work on a few pieces takes less, unless its stream makes no progress.
constexpr std::chrono::milliseconds kPatience{1};

}  // namespace

void PiecePool::Add(uint64_t address, uint64_t bytes) {
  MutexLock lock(&mu_);
  for (uint64_t at = 0; at + piece_bytes_ <= bytes; at += piece_bytes_) {
    free_.push_back(address + at);
  }
}

uint64_t PiecePool::Take(size_t left) {
  MutexLock lock(&mu_);
  if (free_.size() <= left) {
    const auto busy = std::stable_partition(used_.begin(), used_.end(), [this](const Used& piece) {
      return !commands_->Retired(piece.stream, piece.seq);
    });
    for (auto it = busy; it != used_.end(); ++it) free_.push_back(it->address);
    used_.erase(busy, used_.end());
  }
  if (free_.size() <= left) return 0;
  const uint64_t address = free_.back();
  free_.pop_back();
  return address;
}

uint64_t PiecePool::Await() {
  uint64_t address = Take();
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (address == 0 && std::chrono::steady_clock::now() < until) {
    sched_yield();
    address = Take();
  }
  return address;
}

void PiecePool::Give(uint64_t address, uint64_t stream, uint64_t seq) {
  MutexLock lock(&mu_);
  if (seq == 0) {
    free_.push_back(address);
  } else {
    used_.push_back({address, stream, seq});
  }
}

}  // namespace warpline::stub
