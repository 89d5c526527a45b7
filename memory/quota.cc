#include "memory/quota.h"

#include <algorithm>
#include <utility>

namespace warpline {

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    ShrinkTo(0);
    quota_ = std::move(other.quota_);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Reservation::ShrinkTo(uint64_t bytes) {
  if (bytes_ <= bytes) return;
  quota_->Release(bytes_ - bytes);
  bytes_ = bytes;
}

Reservation Reservation::Split(uint64_t bytes) {
  bytes = std::min(bytes, bytes_);
  bytes_ -= bytes;
  return Reservation(quota_, bytes);
}

void Reservation::Merge(Reservation other) {
  if (quota_ == nullptr) quota_ = other.quota_;
  bytes_ += std::exchange(other.bytes_, 0);
}

Reservation Quota::Reserve(uint64_t min_bytes, uint64_t want_bytes, uint64_t unit_bytes) {
  MutexLock lock(&mu_);
  uint64_t bytes = std::min(want_bytes, limit_bytes_ - used_bytes_);
  bytes -= bytes % unit_bytes;
  if (bytes < min_bytes || bytes == 0) return Reservation();
  used_bytes_ += bytes;
  return Reservation(shared_from_this(), bytes);
}

uint64_t Quota::used_bytes() const {
  MutexLock lock(&mu_);
  return used_bytes_;
}

void Quota::Release(uint64_t bytes) {
  MutexLock lock(&mu_);
  used_bytes_ -= bytes;
}

}  // namespace warpline
