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
  const uint64_t bytes = Count(min_bytes, want_bytes, unit_bytes);
  return bytes == 0 ? Reservation() : Reservation(shared_from_this(), bytes);
}

uint64_t Quota::Count(uint64_t min_bytes, uint64_t want_bytes, uint64_t unit_bytes) {
  uint64_t bytes = 0;
  {
    MutexLock lock(&mu_);
    bytes = std::min(want_bytes, limit_bytes_ - used_bytes_);
    bytes -= bytes % unit_bytes;
    if (bytes < min_bytes || bytes == 0) return 0;
    used_bytes_ += bytes;
  }
  if (whole_ == nullptr) return bytes;
  const uint64_t got = whole_->Count(min_bytes, bytes, unit_bytes);
  if (got < bytes) {
    MutexLock lock(&mu_);
    used_bytes_ -= bytes - got;
  }
  return got;
}

const Quota& Quota::scarcer() const {
  if (whole_ == nullptr) return *this;
  const uint64_t left = limit_bytes_ - used_bytes();
  return whole_->limit_bytes() - whole_->used_bytes() < left ? *whole_ : *this;
}

uint64_t Quota::used_bytes() const {
  MutexLock lock(&mu_);
  return used_bytes_;
}

void Quota::Release(uint64_t bytes) {
  {
    MutexLock lock(&mu_);
    used_bytes_ -= bytes;
  }
  if (whole_ != nullptr) whole_->Release(bytes);
}

}  // namespace warpline
