#include "client_stub/arena/testing/fake_work.h"

#include <cstring>
#include <utility>

#include "proto/devices.h"

namespace warpline::stub {

void FakeWork::Work(uint64_t stream) {
  MutexLock lock(&mu_);
  outstanding_[last_seq_.fetch_add(1) + 1] = stream;
}

uint64_t FakeWork::AllRetired() const {
  return outstanding_.empty() ? last_seq_.load() : outstanding_.begin()->first - 1;
}

// A fence belongs to no stream: it is complete when everything before it is.
void FakeWork::ReportFences() {
  while (!fences_.empty() && fences_.begin()->first <= AllRetired()) {
    const uint64_t token = fences_.begin()->second;
    fences_.erase(fences_.begin());
    if (const auto& callback = freed_[DeviceOfHandle(token)]) callback(token);
  }
}

void FakeWork::RetireStream(uint64_t stream) {
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

void FakeWork::RetireAllLocked() {
  for (const auto& [seq, stream] : outstanding_) stream_retired_[stream] = seq;
  outstanding_.clear();
  ReportFences();
}

void FakeWork::RetireAll() {
  MutexLock lock(&mu_);
  RetireAllLocked();
}

bool FakeWork::Retired(uint64_t stream, uint64_t seq) const {
  MutexLock lock(&mu_);
  if (seq <= AllRetired()) return true;
  const auto it = stream_retired_.find(stream);
  return it != stream_retired_.end() && seq <= it->second;
}

void FakeWork::SetFreedCallback(uint32_t device, Callback callback) {
  MutexLock lock(&mu_);
  freed_[device] = std::move(callback);
}

uint64_t FakeWork::Append(CommandId id, const void* body, size_t, std::string_view) {
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

CudaResult FakeWork::RoundTrip(WaitKind kind, CommandId, const void*, size_t, std::string_view,
                               std::string*) {
  if (error() != CudaResult::kSuccess) return error();
  MutexLock lock(&mu_);
  if (kind == WaitKind::kFree) counters_->free_waits.fetch_add(1);
  last_seq_.fetch_add(1);
  RetireAllLocked();
  return CudaResult::kSuccess;
}

}  // namespace warpline::stub
