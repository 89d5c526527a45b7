#include "transport/close_requests.h"

#include <utility>

namespace warpline {

void CloseRequests::Close(const absl::Status& status) {
  MutexLock lock(&mu_);
  if (!asked_.close.has_value() || asked_.close->ok()) asked_.close = status;
  any_.store(true, std::memory_order_release);
}

void CloseRequests::Cancel() {
  MutexLock lock(&mu_);
  asked_.cancel = true;
  any_.store(true, std::memory_order_release);
}

CloseRequests::Taken CloseRequests::Take() {
  MutexLock lock(&mu_);
  any_.store(false, std::memory_order_relaxed);
  return std::exchange(asked_, Taken());
}

}  // namespace warpline
