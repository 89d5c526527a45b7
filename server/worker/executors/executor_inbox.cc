#include "server/worker/executors/executor_inbox.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace warpline::worker {

void ExecutorInbox::Wake() {
  has_news_.store(true, std::memory_order_release);
  wake_.NotifyOne();
}

void ExecutorInbox::Flush() {
  if (outbox_.empty()) return;
  bool asleep;
  {
    MutexLock lock(&mu_);
    tasks_.Append(&outbox_);
    has_news_.store(true, std::memory_order_release);
    asleep = asleep_;
  }
  // Notifies without the lock, because the thread that wakes takes it at once.
  if (asleep) wake_.NotifyOne();
}

bool ExecutorInbox::AddEventWait(EventWait wait) {
  MutexLock lock(&mu_);
  if (closed_) return false;
  waits_.push_back(std::move(wait));
  Wake();
  return true;
}

void ExecutorInbox::AddCancel(const CancelRequest& cancel) {
  MutexLock lock(&mu_);
  if (closed_) return;
  // Those that were not taken yet are one: however many a client sends, no more is kept of them.
  for (CancelRequest& other : cancels_) {
    if (other.waiting_only != cancel.waiting_only) continue;
    other.ticket = cancel.ticket;
    return;
  }
  cancels_.push_back(cancel);
  Wake();
}

void ExecutorInbox::Nudge() {
  MutexLock lock(&mu_);
  Wake();
}

void ExecutorInbox::Stop() {
  MutexLock lock(&mu_);
  stop_ = true;
  Wake();
}

bool ExecutorInbox::Take(TaskQueue* ready, std::vector<EventWait>* waits,
                         std::vector<CancelRequest>* cancels) {
  if (!has_news_.load(std::memory_order_acquire)) return false;
  MutexLock lock(&mu_);
  has_news_.store(stop_, std::memory_order_release);
  std::move(waits_.begin(), waits_.end(), std::back_inserter(*waits));
  waits_.clear();
  cancels->insert(cancels->end(), cancels_.begin(), cancels_.end());
  cancels_.clear();
  ready->Append(&tasks_);
  return true;
}

bool ExecutorInbox::stopped() {
  MutexLock lock(&mu_);
  return stop_;
}

void ExecutorInbox::Sleep(absl::Duration nap) {
  MutexLock lock(&mu_);
  if (has_news_.load(std::memory_order_acquire)) return;
  asleep_ = true;
  if (nap < absl::InfiniteDuration()) {
    wake_.WaitWithTimeout(&mu_, nap);
  } else {
    while (!has_news_.load(std::memory_order_acquire)) wake_.Wait(&mu_);
  }
  asleep_ = false;
}

std::vector<EventWait> ExecutorInbox::Close() {
  MutexLock lock(&mu_);
  closed_ = true;
  return std::exchange(waits_, {});
}

void ExecutorInbox::Clear() {
  outbox_.clear();
  MutexLock lock(&mu_);
  tasks_.clear();
  waits_.clear();
  cancels_.clear();
}

}  // namespace warpline::worker
