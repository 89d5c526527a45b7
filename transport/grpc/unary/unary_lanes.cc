#include "transport/grpc/unary/unary_lanes.h"

#include <utility>

#include "transport/loop_thread.h"

namespace warpline::grpc_internal {

UnaryLanes::UnaryLanes(size_t lanes, const WaitingLimits& limits) : limits_(limits), lanes_(lanes) {
  if (lanes > 0) thread_ = StartLoopThread("wl-unary", [this] { Run(); });
}

bool UnaryLanes::Post(size_t lane, const UnaryCaller& caller, size_t bytes, Work work) {
  MutexLock lock(&mu_);
  if (stopping_) return false;
  Lane& in = lanes_[lane];
  // A caller may become known while its calls wait. Then it is one more caller.
  const std::string name = (caller.known ? "known " : "") + caller.name;
  const auto found = in.queues.find(name);
  const Amount has = found == in.queues.end() ? Amount() : found->second.amount;
  if (!has.Fits(bytes, limits_.most_of_caller, limits_.most_bytes_of_caller)) return false;
  if (!caller.known &&
      !in.of_others.Fits(bytes, limits_.most_of_others, limits_.most_bytes_of_others)) {
    return false;
  }
  Queue& queue = in.queues[name];
  queue.known = caller.known;
  queue.waiting.push_back({bytes, std::move(work)});
  for (Amount* const amount : {&queue.amount, caller.known ? nullptr : &in.of_others}) {
    if (amount == nullptr) continue;
    ++amount->count;
    amount->bytes += bytes;
  }
  changed_.NotifyAll();
  return true;
}

bool UnaryLanes::TakeNext(Work* work) {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[next_];
    next_ = (next_ + 1) % lanes_.size();
    if (lane.queues.empty()) continue;
    auto turn = lane.queues.upper_bound(lane.last);
    if (turn == lane.queues.end()) turn = lane.queues.begin();
    lane.last = turn->first;
    Queue& queue = turn->second;
    const size_t bytes = queue.waiting.front().bytes;
    *work = std::move(queue.waiting.front().work);
    queue.waiting.pop_front();
    for (Amount* const amount : {&queue.amount, queue.known ? nullptr : &lane.of_others}) {
      if (amount == nullptr) continue;
      --amount->count;
      amount->bytes -= bytes;
    }
    if (queue.waiting.empty()) lane.queues.erase(turn);
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
