#include "client_stub/session/memory/read_back_table.h"

#include <cstring>

#include "absl/time/clock.h"

namespace warpline::stub {

uint64_t ReadBackTable::Expect(void* dst, uint64_t va, uint64_t bytes) {
  MutexLock lock(&mu_);
  if (failed_ != CudaResult::kSuccess) return 0;
  requests_[++last_id_] = {dst, va, bytes};
  return last_id_;
}

CudaResult ReadBackTable::Wait(uint64_t id, absl::Duration deadline) {
  const absl::Time end = absl::Now() + deadline;
  MutexLock lock(&mu_);
  while (!requests_[id].done) {
    const absl::Duration left = end - absl::Now();
    if (left <= absl::ZeroDuration()) {
      requests_.erase(id);
      return CudaResult::kUnknown;
    }
    changed_.WaitWithTimeout(&mu_, left);
  }
  const CudaResult result = requests_[id].result;
  requests_.erase(id);
  return result;
}

bool ReadBackTable::Answer(uint64_t id, CudaResult error, std::string_view data) {
  MutexLock lock(&mu_);
  const auto it = requests_.find(id);
  // The thread may have stopped waiting for this request.
  if (it == requests_.end()) return id != 0 && id <= last_id_;
  Request& request = it->second;
  if (request.done || (error == CudaResult::kSuccess && data.size() != request.bytes)) return false;
  if (error == CudaResult::kSuccess) std::memcpy(request.dst, data.data(), data.size());
  request.result = error;
  request.done = true;
  changed_.NotifyAll();
  return true;
}

std::vector<ReadBackTable::Asked> ReadBackTable::Waiting() const {
  std::vector<Asked> waiting;
  MutexLock lock(&mu_);
  for (const auto& [id, request] : requests_) {
    if (!request.done) waiting.push_back({id, request.va, request.bytes});
  }
  return waiting;
}

void ReadBackTable::Fail(CudaResult error) {
  MutexLock lock(&mu_);
  failed_ = error;
  for (auto& [id, request] : requests_) {
    if (request.done) continue;
    request.result = error;
    request.done = true;
  }
  changed_.NotifyAll();
}

}  // namespace warpline::stub
