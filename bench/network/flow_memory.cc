#include "bench/network/flow_memory.h"

namespace warpline {

bool FlowMemory::Passes(const TcpSegment& segment, LinkTime now) {
  MutexLock lock(&mu_);
  if (segment.opens) {
    used_[segment.flow] = now;
    return true;
  }
  const auto found = used_.find(segment.flow);
  if (found == used_.end()) return false;
  if (now - found->second >= idle_) {
    used_.erase(found);
    return false;
  }
  found->second = now;
  return true;
}

void FlowMemory::SetIdle(std::chrono::nanoseconds idle) {
  MutexLock lock(&mu_);
  idle_ = idle;
}

void FlowMemory::Forget() {
  MutexLock lock(&mu_);
  used_.clear();
}

}  // namespace warpline
