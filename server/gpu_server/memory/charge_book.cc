#include "server/gpu_server/memory/charge_book.h"

namespace warpline::server {

CudaResult ChargeBook::Charge(uint64_t bytes) {
  // Also what does not fit into a number.
  if (bytes > quota_->limit_bytes()) return CudaResult::kOutOfMemory;
  if (bytes == 0 || bytes % kUnitBytes != 0) return CudaResult::kInvalidValue;
  Reservation reservation = quota_->Reserve(bytes, bytes, 1);
  if (reservation.bytes() == 0) return CudaResult::kOutOfMemory;
  held_.Merge(std::move(reservation));
  ++pieces_[bytes];
  return CudaResult::kSuccess;
}

bool ChargeBook::Uncharge(uint64_t bytes) {
  const auto found = pieces_.find(bytes);
  if (found == pieces_.end()) return false;
  if (--found->second == 0) pieces_.erase(found);
  held_.ShrinkTo(held_.bytes() - bytes);
  return true;
}

bool ChargeBook::Replace(uint64_t bytes) {
  pieces_.clear();
  held_.ShrinkTo(bytes);
  if (bytes == 0) return true;
  const uint64_t missing = bytes - held_.bytes();
  if (missing > 0) {
    Reservation more = quota_->Reserve(missing, missing, 1);
    if (more.bytes() == 0) {
      held_ = Reservation();
      return false;
    }
    held_.Merge(std::move(more));
  }
  pieces_[bytes] = 1;
  return true;
}

Reservation ChargeBook::End() {
  pieces_.clear();
  return std::exchange(held_, Reservation());
}

}  // namespace warpline::server
