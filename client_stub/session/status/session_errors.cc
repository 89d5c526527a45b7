#include "client_stub/session/status/session_errors.h"

#include <algorithm>
#include <utility>

namespace warpline::stub {

CudaResult SessionErrors::TakeDeferred() {
  output_.Write();
  if (!has_deferred_.load(std::memory_order_relaxed)) return CudaResult::kSuccess;
  MutexLock lock(&mu_);
  has_deferred_.store(false, std::memory_order_relaxed);
  return std::exchange(deferred_, {}).error;
}

CudaResult SessionErrors::TakeFailureOf(uint64_t seq) {
  MutexLock lock(&mu_);
  const auto found = std::find_if(latest_.begin(), latest_.end(),
                                  [seq](const Failure& failure) { return failure.seq == seq; });
  if (seq == 0 || found == latest_.end()) return CudaResult::kSuccess;
  if (deferred_.seq == seq) {
    has_deferred_.store(false, std::memory_order_relaxed);
    deferred_ = {};
  }
  return std::exchange(*found, {}).error;
}

void SessionErrors::Lose(CudaResult error) {
  int none = 0;
  error_.compare_exchange_strong(none, static_cast<int>(error));
}

bool SessionErrors::End() {
  return error_.exchange(static_cast<int>(CudaResult::kDeinitialized)) == 0;
}

void SessionErrors::Defer(uint64_t seq, CudaResult error) {
  MutexLock lock(&mu_);
  latest_[next_++ % kRemembered] = {seq, error};
  if (has_deferred_.exchange(true, std::memory_order_relaxed)) return;
  deferred_ = {seq, error};
}

}  // namespace warpline::stub
