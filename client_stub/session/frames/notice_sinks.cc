#include "client_stub/session/frames/notice_sinks.h"

#include <utility>

namespace warpline::stub {

void NoticeSinks::SetFreedCallback(uint32_t device, Callback callback) {
  MutexLock lock(&mu_);
  freed_[device] = std::move(callback);
}

void NoticeSinks::SetUnmappedCallback(Callback callback) {
  MutexLock lock(&mu_);
  unmapped_ = std::move(callback);
}

void NoticeSinks::SetHostDueCallback(Callback callback) {
  MutexLock lock(&host_due_mu_);
  host_due_ = std::move(callback);
}

bool NoticeSinks::Freed(uint64_t token) {
  const uint32_t device = DeviceOfHandle(token);
  if (device >= kMaxSessionDevices) return false;
  MutexLock lock(&mu_);
  if (freed_[device]) freed_[device](token);
  return true;
}

void NoticeSinks::Unmapped(uint64_t token) {
  MutexLock lock(&mu_);
  if (unmapped_) unmapped_(token);
}

void NoticeSinks::HostDue(uint64_t token) {
  MutexLock lock(&host_due_mu_);
  if (host_due_) host_due_(token);
}

}  // namespace warpline::stub
