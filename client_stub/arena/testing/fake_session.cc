#include "client_stub/arena/testing/fake_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/frames.h"

namespace warpline::stub {

FakeSession::FakeSession(uint64_t quota, uint64_t initial_bytes, uint64_t arena_bytes,
                         uint32_t devices)
    : devices_(devices), arena_bytes_(arena_bytes), server_limit_(quota * devices) {
  for (RemoteDevice& device : devices_) device.total_bytes = quota;
  if (initial_bytes == 0) return;
  initial_grant_ = {kArenaBase + kArenaMargin, initial_bytes};
  grants_[initial_grant_.va] = initial_bytes;
  granted_bytes_ = initial_bytes;
}

void FakeSession::Work(uint64_t stream) {
  MutexLock lock(&mu_);
  outstanding_[last_seq_.fetch_add(1) + 1] = stream;
}

uint64_t FakeSession::AllRetired() const {
  return outstanding_.empty() ? last_seq_.load() : outstanding_.begin()->first - 1;
}

// A fence belongs to no stream: it is complete when everything before it is.
void FakeSession::ReportFences() {
  while (!fences_.empty() && fences_.begin()->first <= AllRetired()) {
    const uint64_t token = fences_.begin()->second;
    fences_.erase(fences_.begin());
    if (const auto& callback = freed_[DeviceOfHandle(token)]) callback(token);
  }
}

void FakeSession::RetireStream(uint64_t stream) {
  MutexLock lock(&mu_);
  for (auto it = outstanding_.begin(); it != outstanding_.end();) {
    if (it->second == stream) {
      stream_retired_[stream] = it->first;
      it = outstanding_.erase(it);
    } else {
      ++it;
    }
  }
  ReportFences();
}

void FakeSession::RetireAllLocked() {
  for (const auto& [seq, stream] : outstanding_) stream_retired_[stream] = seq;
  outstanding_.clear();
  ReportFences();
}

void FakeSession::RetireAll() {
  MutexLock lock(&mu_);
  RetireAllLocked();
}

bool FakeSession::Retired(uint64_t stream, uint64_t seq) const {
  MutexLock lock(&mu_);
  if (seq <= AllRetired()) return true;
  const auto it = stream_retired_.find(stream);
  return it != stream_retired_.end() && seq <= it->second;
}

void FakeSession::SetServerLimit(uint64_t bytes) {
  MutexLock lock(&mu_);
  server_limit_ = bytes;
}

bool FakeSession::Backed(uint64_t va, uint64_t bytes) const {
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

uint64_t FakeSession::granted_bytes() const {
  MutexLock lock(&mu_);
  return granted_bytes_;
}

std::string FakeSession::complaint() const {
  MutexLock lock(&mu_);
  return complaint_;
}

void FakeSession::SetFreedCallback(uint32_t device, std::function<void(uint64_t token)> callback) {
  MutexLock lock(&mu_);
  freed_[device] = std::move(callback);
}

CudaResult FakeSession::RequestMemory(uint64_t va, uint64_t min_bytes, uint64_t want_bytes,
                                      Grant* grant) {
  if (error() != CudaResult::kSuccess) return error();
  MutexLock lock(&mu_);
  ++requests_;
  counters_.memory_round_trips.fetch_add(1);
  if (va % kChunkGranularity != 0 || min_bytes % kChunkGranularity != 0 ||
      want_bytes % kChunkGranularity != 0 || min_bytes == 0 || min_bytes > want_bytes) {
    complaint_ = "a request with bad sizes";
  }
  if (va < kArenaBase + kArenaMargin ||
      va + want_bytes > kArenaBase + arena_bytes_ - kArenaMargin) {
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
  if (granted_bytes_ > devices_.size() * devices_[0].total_bytes)
    complaint_ = "more than the quota";
  grants_[va] = bytes;
  *grant = {va, bytes};
  return CudaResult::kSuccess;
}

void FakeSession::ReturnMemory(const Grant& grant) {
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

uint64_t FakeSession::Append(CommandId id, const void* body, size_t, std::string_view) {
  if (error() != CudaResult::kSuccess) return 0;
  MutexLock lock(&mu_);
  const uint64_t seq = last_seq_.fetch_add(1) + 1;
  if (id == CommandId::kFreeFence) {
    uint64_t token;
    std::memcpy(&token, body, sizeof(token));
    fences_[seq] = token;
    ++fences_sent_;
    ReportFences();
  }
  return seq;
}

CudaResult FakeSession::RoundTrip(WaitKind kind, CommandId, const void*, size_t, std::string_view,
                                  std::string*) {
  if (error() != CudaResult::kSuccess) return error();
  MutexLock lock(&mu_);
  if (kind == WaitKind::kFree) counters_.free_waits.fetch_add(1);
  last_seq_.fetch_add(1);
  RetireAllLocked();
  return CudaResult::kSuccess;
}

}  // namespace warpline::stub
