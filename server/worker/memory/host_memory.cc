#include "server/worker/memory/host_memory.h"

#include <numeric>

#include "server/hostlink/handover/host_bytes.h"

namespace warpline::worker {
namespace {

// More than any host has; sums of it do not wrap.
constexpr uint64_t kMostBytes = uint64_t{1} << 50;

}  // namespace

bool HostMemory::Hold(Part part, uint64_t bytes) {
  uint64_t& held = parts_[part];
  const uint64_t sum = std::accumulate(parts_.begin(), parts_.end(), uint64_t{0});
  if (bytes > held) {
    if (bytes > kMostBytes || !Charge(sum - held + bytes)) return false;
    held = bytes;
  } else if (bytes < held) {
    const uint64_t less = sum - held + bytes;
    held = bytes;
    // One piece is left, so that it need not be asked for again and again.
    Uncharge(less + kUnit);
  }
  return true;
}

bool HostMemory::Charge(uint64_t bytes) {
  if (replaying_) return true;
  const uint64_t before = charged_;
  while (charged_ + kFreeImageBytes < bytes) {
    if (charger_->Charge(kHostMemoryNumber, kUnit) != CudaResult::kSuccess) {
      for (; charged_ > before; charged_ -= kUnit) charger_->Uncharge(kHostMemoryNumber, kUnit);
      return false;
    }
    charged_ += kUnit;
  }
  return true;
}

void HostMemory::Uncharge(uint64_t bytes) {
  if (replaying_) return;
  for (; charged_ > 0 && charged_ - kUnit + kFreeImageBytes >= bytes; charged_ -= kUnit) {
    charger_->Uncharge(kHostMemoryNumber, kUnit);
  }
}

}  // namespace warpline::worker
