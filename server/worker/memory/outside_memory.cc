#include "server/worker/memory/outside_memory.h"

#include <algorithm>
#include <iterator>

namespace warpline::worker {
namespace {

// More than any device has; sums of it do not wrap.
constexpr uint64_t kMostBytes = uint64_t{1} << 50;

}  // namespace

uint64_t OutsideMemory::Chargeable(uint64_t taken) {
  const uint64_t beyond = taken - std::min(taken, kAllowance);
  return (beyond + kUnit - 1) / kUnit * kUnit;
}

CudaResult OutsideMemory::Take(uint32_t device, uint64_t bytes) {
  MutexLock lock(&mu_);
  Device& of = devices_[device];
  if (bytes > kMostBytes || of.taken + bytes > kMostBytes) return CudaResult::kOutOfMemory;
  const uint64_t wanted = Chargeable(of.taken + bytes);
  if (!replaying_ && wanted > of.charged) {
    const uint64_t piece = wanted - of.charged;
    const CudaResult result = charger_->Charge(device, piece);
    if (result != CudaResult::kSuccess) return result;
    of.charged += piece;
    of.pieces.insert(piece);
  }
  of.taken += bytes;
  return CudaResult::kSuccess;
}

void OutsideMemory::Give(uint32_t device, uint64_t bytes) {
  MutexLock lock(&mu_);
  Device& of = devices_[device];
  of.taken -= std::min(bytes, of.taken);
  // Pieces go back whole: the largest that are not needed. What is left over until all are is less
  // than the smallest of those that stay.
  const uint64_t wanted = Chargeable(of.taken);
  for (auto piece = of.pieces.end(); piece != of.pieces.begin() && of.charged > wanted;) {
    --piece;
    if (of.charged - *piece < wanted) continue;
    of.charged -= *piece;
    charger_->Uncharge(device, *piece);
    piece = of.pieces.erase(piece);
  }
}

void OutsideMemory::BeginReplay() {
  MutexLock lock(&mu_);
  replaying_ = true;
}

uint64_t OutsideMemory::EndReplay() {
  MutexLock lock(&mu_);
  replaying_ = false;
  Device& first = devices_.front();
  first.charged = Chargeable(first.taken);
  first.pieces.clear();
  if (first.charged > 0) first.pieces.insert(first.charged);
  return first.charged;
}

}  // namespace warpline::worker
