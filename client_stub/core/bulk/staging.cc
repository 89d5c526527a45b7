#include "client_stub/core/bulk/staging.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <chrono>

namespace warpline::stub {
namespace {

// What a process has of it, by the largest copy that it has made.
constexpr uint64_t kLeastBytes = 4u << 20;
constexpr uint64_t kMostBytes = 32u << 20;
// What the device does with a few pieces takes less, unless its stream is not getting on.
constexpr std::chrono::milliseconds kPatience{1};

}  // namespace

bool Staging::Reserve(uint64_t bytes, uint64_t pieces) {
  const uint64_t least = std::max(pieces * kPieceBytes, kLeastBytes);
  const uint64_t wanted = std::clamp(std::bit_ceil(bytes) / 2, least, kMostBytes);
  MutexLock lock(&mu_);
  // What a server refuses once it is not asked for again: the other way is always there.
  if (bytes_ >= wanted || refused_) return bytes_ > 0;
  uint64_t address = 0;
  if (memory_->Allocate(wanted - bytes_, &address) != CudaResult::kSuccess) {
    refused_ = true;
    return bytes_ > 0;
  }
  for (uint64_t at = 0; at < wanted - bytes_; at += kPieceBytes) free_.push_back(address + at);
  bytes_ = wanted;
  return true;
}

uint64_t Staging::Take() {
  MutexLock lock(&mu_);
  if (free_.empty()) {
    const auto busy = std::stable_partition(used_.begin(), used_.end(), [this](const Used& piece) {
      return !commands_->Retired(piece.stream, piece.seq);
    });
    for (auto it = busy; it != used_.end(); ++it) free_.push_back(it->address);
    used_.erase(busy, used_.end());
  }
  if (free_.empty()) return 0;
  const uint64_t address = free_.back();
  free_.pop_back();
  return address;
}

uint64_t Staging::Await() {
  uint64_t address = Take();
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (address == 0 && std::chrono::steady_clock::now() < until) {
    sched_yield();
    address = Take();
  }
  return address;
}

void Staging::Give(uint64_t address, uint64_t stream, uint64_t seq) {
  MutexLock lock(&mu_);
  if (seq == 0) {
    free_.push_back(address);
  } else {
    used_.push_back({address, stream, seq});
  }
}

}  // namespace warpline::stub
