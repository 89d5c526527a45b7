#include "server/device/cpu/memory/device_heap.h"

#include <algorithm>

namespace warpline::cpu {
namespace {

// The unit of allocation. Smaller blocks would cost more in bookkeeping than they hold; this bounds
// how many there can be.
constexpr uint64_t kUnit = 64;

}  // namespace

DeviceHeap::~DeviceHeap() {
  if (base_ != 0) memory_->FreeRegion(base_);
}

uint64_t DeviceHeap::size() const {
  MutexLock lock(&mu_);
  return bytes_;
}

CudaResult DeviceHeap::Resize(uint64_t bytes) {
  MutexLock lock(&mu_);
  if (base_ != 0 || bytes > kMaxBytes) return CudaResult::kInvalidValue;
  bytes_ = std::max<uint64_t>((bytes + kUnit - 1) / kUnit * kUnit, kUnit);
  return CudaResult::kSuccess;
}

uint64_t DeviceHeap::Allocate(uint64_t bytes) {
  MutexLock lock(&mu_);
  if (bytes > bytes_) return 0;
  if (base_ == 0) {
    if (memory_->AllocateRegion(bytes_, RegionUse::kKernels, &base_) != CudaResult::kSuccess) {
      base_ = 0;
      return 0;
    }
    free_[base_] = bytes_;
  }
  const uint64_t size = std::max<uint64_t>((bytes + kUnit - 1) / kUnit * kUnit, kUnit);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < size) continue;
    const uint64_t address = it->first;
    const uint64_t rest = it->second - size;
    free_.erase(it);
    if (rest != 0) free_[address + size] = rest;
    used_[address] = size;
    return address;
  }
  return 0;
}

bool DeviceHeap::Free(uint64_t address) {
  if (address == 0) return true;
  MutexLock lock(&mu_);
  const auto found = used_.find(address);
  if (found == used_.end()) return false;
  uint64_t bytes = found->second;
  used_.erase(found);
  // Free neighbours become one with it.
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == address + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += bytes;
      return true;
    }
  }
  free_[address] = bytes;
  return true;
}

}  // namespace warpline::cpu
