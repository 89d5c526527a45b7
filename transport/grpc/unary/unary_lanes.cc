#include "transport/grpc/unary/unary_lanes.h"

#include <utility>

#include "transport/loop_thread.h"

namespace warpline::grpc_internal {

UnaryLanes::UnaryLanes(size_t lanes, size_t most_waiting)
    : most_waiting_(most_waiting), lanes_(lanes) {
  if (lanes > 0) thread_ = StartLoopThread("wl-unary", [this] { Run(); });
}

bool UnaryLanes::Post(size_t lane, Work work) {
  MutexLock lock(&mu_);
  if (stopping_ || lanes_[lane].size() >= most_waiting_) return false;
  lanes_[lane].push_back(std::move(work));
  changed_.NotifyAll();
  return true;
}

bool UnaryLanes::TakeNext(Work* work) {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    std::deque<Work>& lane = lanes_[next_];
    next_ = (next_ + 1) % lanes_.size();
    if (lane.empty()) continue;
    *work = std::move(lane.front());
    lane.pop_front();
    return true;
  }
  return false;
}

void UnaryLanes::Run() {
  while (true) {
    Work work;
    bool run;
    {
      MutexLock lock(&mu_);
      while (!TakeNext(&work)) {
        if (stopping_) return;
        changed_.Wait(&mu_);
      }
      run = !stopping_;
    }
    work(run);
  }
}

void UnaryLanes::Stop() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace warpline::grpc_internal
