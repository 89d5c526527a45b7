#include "server/worker/host/session_desk.h"

#include <utility>

#include "absl/memory/memory.h"
#include "transport/loop_thread.h"

namespace warpline::worker {

std::shared_ptr<SessionDesk> SessionDesk::OfCaller() { return absl::WrapUnique(new SessionDesk); }

absl::StatusOr<std::shared_ptr<SessionDesk>> SessionDesk::WithThread() {
  std::shared_ptr<SessionDesk> desk = OfCaller();
  desk->has_thread_ = true;
  auto thread = TryStartLoopThread("wl-session", [desk] { desk->Serve(); });
  if (!thread.ok()) return thread.status();
  thread->detach();
  return desk;
}

void SessionDesk::Do(Task task) {
  if (!has_thread_) return task(&session_);
  MutexLock lock(&mu_);
  tasks_.push_back(std::move(task));
  left_.NotifyAll();
}

void SessionDesk::DoLast(Task task) {
  std::deque<Task> dropped;  // Destroyed without the lock.
  MutexLock lock(&mu_);
  ending_.store(true, std::memory_order_release);
  dropped.swap(tasks_);
  tasks_.push_back(std::move(task));
  last_ = true;
  left_.NotifyAll();
}

void SessionDesk::WithRing(absl::FunctionRef<void(RingSession*)> call) {
  MutexLock lock(&ring_mu_);
  if (ring_ != nullptr) call(ring_);
}

void SessionDesk::Show(RingSession* ring) {
  MutexLock lock(&ring_mu_);
  ring_ = ring;
}

void SessionDesk::Serve() {
  while (DoNext()) {
  }
}

bool SessionDesk::DoNext() {
  Task task;
  bool last = false;
  {
    MutexLock lock(&mu_);
    while (tasks_.empty()) left_.Wait(&mu_);
    task = std::move(tasks_.front());
    tasks_.pop_front();
    last = last_;
  }
  task(&session_);
  return !last;
}

}  // namespace warpline::worker
