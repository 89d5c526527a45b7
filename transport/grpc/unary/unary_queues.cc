#include "transport/grpc/unary/unary_queues.h"

#include <utility>

#include "transport/loop_thread.h"

namespace warpline::grpc_internal {

UnaryQueues::UnaryQueues(size_t queues, const WaitingLimits& limits)
    : limits_(limits), queues_(queues) {
  if (queues > 0) thread_ = StartLoopThread("wl-unary", [this] { Run(); });
}

bool UnaryQueues::Post(size_t queue, const UnaryCaller& caller, size_t bytes, Work work) {
  MutexLock lock(&mu_);
  if (stopping_) return false;
  Queue& in = queues_[queue];
  // A caller may become known while its calls wait. Then it is one more caller.
  const std::string name = (caller.known ? "known " : "") + caller.name;
  const auto found = in.callers.find(name);
  const Amount has = found == in.callers.end() ? Amount() : found->second.amount;
  if (!has.Fits(bytes, limits_.most_of_caller, limits_.most_bytes_of_caller)) return false;
  if (!caller.known &&
      !in.of_others.Fits(bytes, limits_.most_of_others, limits_.most_bytes_of_others)) {
    return false;
  }
  CallerQueue& of_caller = in.callers[name];
  of_caller.known = caller.known;
  of_caller.waiting.push_back({bytes, std::move(work)});
  for (Amount* const amount : {&of_caller.amount, caller.known ? nullptr : &in.of_others}) {
    if (amount == nullptr) continue;
    ++amount->count;
    amount->bytes += bytes;
  }
  changed_.NotifyAll();
  return true;
}

bool UnaryQueues::TakeNext(Work* work) {
  for (size_t i = 0; i < queues_.size(); ++i) {
    Queue& queue = queues_[next_];
    next_ = (next_ + 1) % queues_.size();
    if (queue.callers.empty()) continue;
    auto turn = queue.callers.upper_bound(queue.last);
    if (turn == queue.callers.end()) turn = queue.callers.begin();
    queue.last = turn->first;
    CallerQueue& of_caller = turn->second;
    const size_t bytes = of_caller.waiting.front().bytes;
    *work = std::move(of_caller.waiting.front().work);
    of_caller.waiting.pop_front();
    for (Amount* const amount : {&of_caller.amount, of_caller.known ? nullptr : &queue.of_others}) {
      if (amount == nullptr) continue;
      --amount->count;
      amount->bytes -= bytes;
    }
    if (of_caller.waiting.empty()) queue.callers.erase(turn);
    return true;
  }
  return false;
}

void UnaryQueues::Run() {
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

void UnaryQueues::Stop() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace warpline::grpc_internal
