#include "client_stub/core/runtime/memory_pool.h"

#include <algorithm>

#include "client_stub/core/runtime/device.h"

namespace warpline::stub {
namespace {

// CUDA's pools reserve memory in multiples of this.
constexpr uint64_t kGranuleBytes = 32ull << 20;

uint64_t RoundUp(uint64_t bytes) {
  return (bytes + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes;
}

}  // namespace

bool MemoryPool::AccessibleTo(const Device& accessing) const {
  return &accessing == device || (shared_with >> accessing.number & 1) != 0;
}

bool MemoryPool::Take(uint64_t bytes) {
  MutexLock lock(&mu_);
  uint64_t used;
  if (__builtin_add_overflow(usage_.used, bytes, &used) || used > uint64_t{1} << 62 ||
      (max_bytes != 0 && used > max_bytes)) {
    return false;
  }
  usage_.used = used;
  usage_.used_high = std::max(usage_.used_high, used);
  usage_.reserved = std::max(usage_.reserved, RoundUp(used));
  usage_.reserved_high = std::max(usage_.reserved_high, usage_.reserved);
  return true;
}

void MemoryPool::Give(uint64_t bytes) {
  MutexLock lock(&mu_);
  usage_.used -= std::min(bytes, usage_.used);
  TrimLocked(release_threshold_);
}

void MemoryPool::Trim(uint64_t keep) {
  MutexLock lock(&mu_);
  TrimLocked(keep);
}

void MemoryPool::TrimLocked(uint64_t keep) {
  usage_.reserved = std::max(RoundUp(usage_.used), std::min(usage_.reserved, keep));
}

uint64_t MemoryPool::release_threshold() const {
  MutexLock lock(&mu_);
  return release_threshold_;
}

void MemoryPool::set_release_threshold(uint64_t bytes) {
  MutexLock lock(&mu_);
  release_threshold_ = bytes;
}

MemoryPool::Usage MemoryPool::usage() const {
  MutexLock lock(&mu_);
  return usage_;
}

void MemoryPool::ResetUsedHigh() {
  MutexLock lock(&mu_);
  usage_.used_high = usage_.used;
}

void MemoryPool::ResetReservedHigh() {
  MutexLock lock(&mu_);
  usage_.reserved_high = usage_.reserved;
}

std::string MemoryPool::share_token() const {
  MutexLock lock(&mu_);
  return share_token_;
}

std::string MemoryPool::SetShareToken(const std::string& token) {
  MutexLock lock(&mu_);
  if (share_token_.empty()) share_token_ = token;
  return share_token_;
}

void MemoryPool::ResetShareToken(const std::string& token) {
  MutexLock lock(&mu_);
  share_token_ = token;
}

}  // namespace warpline::stub
