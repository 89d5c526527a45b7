#include "client_stub/core/testing/fake_memory.h"

#include <algorithm>
#include <utility>

#include "common/sealed_memory.h"

namespace warpline::stub {

uint32_t FakeMemory::DeviceOf(uint64_t va) const {
  return static_cast<uint32_t>(DeviceOfAddress(va, terms_->arena_base, terms_->arena_bytes,
                                               static_cast<uint32_t>(terms_->devices.size())));
}

uint64_t FakeMemory::LeftOf(uint32_t device) const {
  return terms_->devices[device].total_bytes - granted_bytes_[device];
}

CudaResult FakeMemory::RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                                     Grant* grant) {
  MutexLock lock(&mu_);
  const uint32_t device = DeviceOf(va);
  const uint64_t left = LeftOf(device);
  if (min_bytes > left) return CudaResult::kOutOfMemory;
  *grant = {va, std::min(want_bytes, left)};
  granted_bytes_[device] += grant->bytes;
  return CudaResult::kSuccess;
}

void FakeMemory::ReturnMemory(const Grant& grant) {
  MutexLock lock(&mu_);
  granted_bytes_[DeviceOf(grant.va)] -= grant.bytes;
}

CudaResult FakeMemory::CreateHandles(uint64_t first, uint64_t bytes, uint64_t count,
                                     uint64_t* created) {
  MutexLock lock(&mu_);
  ++handle_requests_;
  const uint32_t device = DeviceOfHandle(first);
  const uint64_t left = LeftOf(device);
  *created = std::min(count, left / bytes);
  if (*created == 0) return CudaResult::kOutOfMemory;
  for (uint64_t i = 0; i < *created; ++i) handles_[first + i] = bytes;
  granted_bytes_[device] += *created * bytes;
  return CudaResult::kSuccess;
}

void FakeMemory::ReturnHandle(uint64_t handle) {
  MutexLock lock(&mu_);
  granted_bytes_[DeviceOfHandle(handle)] -= handles_[handle];
  handles_.erase(handle);
}

CudaResult FakeMemory::Share(const SharedWhat& what, SharedMemory* shared) {
  constexpr uint64_t kChunk = 2u << 20;
  MutexLock lock(&mu_);
  shared->token = "token" + std::to_string(1'000'000'000 + offers_.size()) + "x";
  shared->va = what.va / kChunk * kChunk;
  shared->bytes = (what.va - shared->va + what.bytes + kChunk - 1) / kChunk * kChunk;
  if (what.handle != 0) shared->bytes = handles_[what.handle];
  const uint32_t device = what.handle != 0 ? DeviceOfHandle(what.handle) : DeviceOf(what.va);
  offers_[shared->token] = {shared->bytes, device};
  return CudaResult::kSuccess;
}

CudaResult FakeMemory::OpenShared(const std::string& token, uint64_t handle, uint64_t bytes) {
  MutexLock lock(&mu_);
  const auto it = offers_.find(token);
  if (it == offers_.end()) return CudaResult::kInvalidValue;
  const Offer& offer = it->second;
  // Without a handle the call only asks whether there is such an offer.
  if (handle != 0 && (offer.bytes != bytes || offer.device != DeviceOfHandle(handle))) {
    return CudaResult::kInvalidValue;
  }
  if (handle != 0) handles_[handle] = 0;  // Charged where it was made.
  return CudaResult::kSuccess;
}

size_t FakeMemory::handles() const {
  MutexLock lock(&mu_);
  return handles_.size();
}

int FakeMemory::handle_requests() const {
  MutexLock lock(&mu_);
  return handle_requests_;
}

void FakeMemory::ShareMemory() {
  MutexLock lock(&mu_);
  shares_memory_ = true;
}

void FakeMemory::ShareWindow(uint64_t bytes) {
  MutexLock lock(&mu_);
  shares_memory_ = true;
  window_bytes_ = bytes;
}

CudaResult FakeMemory::ShareHostMemory(HostSharing what, uint64_t, uint64_t bytes, UniqueFd* fd) {
  MutexLock lock(&mu_);
  if (!shares_memory_) return CudaResult::kNotSupported;
  if (what == HostSharing::kGiveBack) return CudaResult::kSuccess;
  if (window_bytes_ > 0) {
    if (what != HostSharing::kTakeForStaging) return CudaResult::kNotSupported;
    if (window_taken_) return CudaResult::kOutOfMemory;
    window_taken_ = true;
    bytes = window_bytes_;
  }
  auto memory = NewSealedMemory("fake-host-memory", bytes);
  if (!memory.ok()) return CudaResult::kOutOfMemory;
  *fd = *std::move(memory);
  return CudaResult::kSuccess;
}

}  // namespace warpline::stub
