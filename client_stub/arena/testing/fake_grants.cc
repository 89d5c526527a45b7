#include "client_stub/arena/testing/fake_grants.h"

#include <algorithm>
#include <iterator>

#include "proto/frames.h"

namespace warpline::stub {

void FakeGrants::Begin(uint64_t server_limit) {
  MutexLock lock(&mu_);
  server_limit_ = server_limit;
  const Grant& initial = terms_->initial_grant;
  if (initial.bytes == 0) return;
  grants_[initial.va] = initial.bytes;
  granted_bytes_ = initial.bytes;
}

void FakeGrants::SetServerLimit(uint64_t bytes) {
  MutexLock lock(&mu_);
  server_limit_ = bytes;
}

bool FakeGrants::Backed(uint64_t va, uint64_t bytes) const {
  MutexLock lock(&mu_);
  while (bytes > 0) {
    auto it = grants_.upper_bound(va);
    if (it == grants_.begin()) return false;
    --it;
    if (va - it->first >= it->second) return false;
    const uint64_t here = std::min(bytes, it->second - (va - it->first));
    va += here;
    bytes -= here;
  }
  return true;
}

uint64_t FakeGrants::granted_bytes() const {
  MutexLock lock(&mu_);
  return granted_bytes_;
}

std::string FakeGrants::complaint() const {
  MutexLock lock(&mu_);
  return complaint_;
}

std::vector<std::string> FakeGrants::refused_because() const {
  MutexLock lock(&mu_);
  return refused_because_;
}

void FakeGrants::NoteRefusedMemory(CudaResult, std::string_view why) {
  MutexLock lock(&mu_);
  refused_because_.emplace_back(why);
}

CudaResult FakeGrants::RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                                     Grant* grant) {
  if (status_->error() != CudaResult::kSuccess) return status_->error();
  MutexLock lock(&mu_);
  ++requests_;
  counters_->memory_round_trips.fetch_add(1);
  if (va % kChunkGranularity != 0 || min_bytes % kChunkGranularity != 0 ||
      want_bytes % kChunkGranularity != 0 || min_bytes == 0 || min_bytes > want_bytes) {
    complaint_ = "a request with bad sizes";
  }
  if (va < terms_->arena_base + kArenaMargin ||
      va + want_bytes > terms_->arena_base + terms_->arena_bytes - kArenaMargin) {
    complaint_ = "a request outside the arena";
  }
  const auto next = grants_.upper_bound(va);
  if ((next != grants_.end() && next->first < va + want_bytes) ||
      (next != grants_.begin() && std::prev(next)->first + std::prev(next)->second > va)) {
    complaint_ = "a request for what is backed already";
  }
  const uint64_t left = server_limit_ > granted_bytes_ ? server_limit_ - granted_bytes_ : 0;
  const uint64_t bytes = std::min(want_bytes, left / kChunkGranularity * kChunkGranularity);
  if (bytes < min_bytes) {
    ++refusals_;
    return CudaResult::kOutOfMemory;
  }
  granted_bytes_ += bytes;
  if (granted_bytes_ > terms_->devices.size() * terms_->device().total_bytes) {
    complaint_ = "more than the quota";
  }
  grants_[va] = bytes;
  *grant = {va, bytes};
  return CudaResult::kSuccess;
}

void FakeGrants::ReturnMemory(const Grant& grant) {
  MutexLock lock(&mu_);
  ++returns_;
  const auto it = grants_.find(grant.va);
  if (it == grants_.end() || it->second != grant.bytes) {
    complaint_ = "a return of what was not granted like that";
    return;
  }
  granted_bytes_ -= grant.bytes;
  grants_.erase(it);
}

}  // namespace warpline::stub
