#include "client_stub/session/status/session_errors.h"

namespace warpline::stub {

CudaResult SessionErrors::TakeDeferred() {
  output_.Write();
  if (deferred_.load(std::memory_order_relaxed) == 0) return CudaResult::kSuccess;
  return static_cast<CudaResult>(deferred_.exchange(0, std::memory_order_relaxed));
}

void SessionErrors::Lose(CudaResult error) {
  int none = 0;
  error_.compare_exchange_strong(none, static_cast<int>(error));
}

bool SessionErrors::End() {
  return error_.exchange(static_cast<int>(CudaResult::kDeinitialized)) == 0;
}

void SessionErrors::Defer(CudaResult error) {
  int none = 0;
  deferred_.compare_exchange_strong(none, static_cast<int>(error), std::memory_order_relaxed);
}

}  // namespace warpline::stub
