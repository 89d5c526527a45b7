#include "server/worker/lanes/lane_inbox.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace warpline::worker {
namespace {

template <typename From, typename To>
void MoveAll(From* from, To* to) {
  std::move(from->begin(), from->end(), std::back_inserter(*to));
  from->clear();
}

}  // namespace

void LaneInbox::Wake() {
  has_news_.store(true, std::memory_order_release);
  wake_.NotifyOne();
}

void LaneInbox::MoveOutbox(std::deque<Task>* ready) { MoveAll(&outbox_, ready); }

void LaneInbox::Flush() {
  if (outbox_.empty()) return;
  bool asleep;
  {
    MutexLock lock(&mu_);
    if (tasks_.empty()) {
      tasks_.swap(outbox_);
    } else {
      MoveAll(&outbox_, &tasks_);
    }
    has_news_.store(true, std::memory_order_release);
    asleep = asleep_;
  }
  outbox_.clear();
  // Notifies without the lock, because the thread that wakes takes it at once.
  if (asleep) wake_.NotifyOne();
}

bool LaneInbox::AddEventWait(EventWait wait) {
  MutexLock lock(&mu_);
  if (closed_) return false;
  waits_.push_back(std::move(wait));
  Wake();
  return true;
}

void LaneInbox::Nudge() {
  MutexLock lock(&mu_);
  Wake();
}

void LaneInbox::Stop() {
  MutexLock lock(&mu_);
  stop_ = true;
  Wake();
}

bool LaneInbox::Take(std::deque<Task>* ready, std::vector<EventWait>* waits) {
  if (!has_news_.load(std::memory_order_acquire)) return false;
  MutexLock lock(&mu_);
  has_news_.store(stop_, std::memory_order_release);
  MoveAll(&waits_, waits);
  MoveAll(&tasks_, ready);
  return true;
}

bool LaneInbox::stopped() {
  MutexLock lock(&mu_);
  return stop_;
}

void LaneInbox::Sleep(absl::Duration nap) {
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

std::vector<EventWait> LaneInbox::Close() {
  MutexLock lock(&mu_);
  closed_ = true;
  return std::exchange(waits_, {});
}

void LaneInbox::Clear() {
  outbox_.clear();
  MutexLock lock(&mu_);
  tasks_.clear();
  waits_.clear();
}

}  // namespace warpline::worker
