#include "server/hostlink/process/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include <algorithm>

#include "transport/loop_thread.h"

namespace warpline {
namespace {

constexpr uint64_t kBellToken = 0;

// Timers must not jump with the wall clock.
absl::Time MonotonicNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

}  // namespace

EventLoop::EventLoop(const char* name, LoopAffinity* affinity)
    : epoll_(epoll_create1(EPOLL_CLOEXEC)),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      affinity_(affinity == nullptr ? &own_affinity_ : affinity) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kBellToken;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, bell_.get(), &event);
  thread_ = StartLoopThread(name, [this] { Run(); });
}

EventLoop::~EventLoop() {
  Post([this] { stopping_.store(true, std::memory_order_relaxed); });
  thread_.join();
}

void EventLoop::Post(Callback callback) {
  bool was_empty;
  {
    MutexLock lock(&mu_);
    was_empty = posted_.empty();
    posted_.push_back(std::move(callback));
  }
  if (was_empty) eventfd_write(bell_.get(), 1);
}

void EventLoop::Flush() {
  struct Done {
    Mutex mu;
    CondVar changed;
    bool done ABSL_GUARDED_BY(mu) = false;
  };
  auto done = std::make_shared<Done>();
  Post([done] {
    MutexLock lock(&done->mu);
    done->done = true;
    done->changed.NotifyAll();
  });
  MutexLock lock(&done->mu);
  while (!done->done) done->changed.Wait(&done->mu);
}

EventLoop::Token EventLoop::Watch(int fd, Callback readable) {
  affinity_->AssertOnLoop();
  const Token token = next_token_++;
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = token;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return 0;
  watched_.emplace(token, Watched{fd, std::make_shared<Callback>(std::move(readable))});
  return token;
}

EventLoop::Token EventLoop::RunAfter(absl::Duration delay, Callback callback) {
  affinity_->AssertOnLoop();
  const Token token = next_token_++;
  const absl::Time when = MonotonicNow() + delay;
  timers_.emplace(std::make_pair(when, token), std::move(callback));
  timer_times_.emplace(token, when);
  return token;
}

void EventLoop::Remove(Token token) {
  affinity_->AssertOnLoop();
  if (const auto it = watched_.find(token); it != watched_.end()) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second.fd, nullptr);
    watched_.erase(it);
  } else if (const auto timer = timer_times_.find(token); timer != timer_times_.end()) {
    timers_.erase({timer->second, token});
    timer_times_.erase(timer);
  }
}

void EventLoop::RunPosted() {
  std::vector<Callback> posted;
  {
    MutexLock lock(&mu_);
    posted.swap(posted_);
  }
  for (Callback& callback : posted) {
    callback();
    callback = nullptr;  // Destroys what it holds before the next one runs.
  }
}

void EventLoop::RunTimers() {
  const absl::Time now = MonotonicNow();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    const auto first = timers_.begin();
    const Callback callback = std::move(first->second);
    timer_times_.erase(first->first.second);
    timers_.erase(first);
    callback();
  }
}

int EventLoop::TimeoutMs() const {
  if (timers_.empty()) return -1;
  const absl::Duration left = timers_.begin()->first.first - MonotonicNow();
  const int64_t ms = absl::ToInt64Milliseconds(left + absl::Milliseconds(1));
  return static_cast<int>(std::clamp<int64_t>(ms, 0, 60000));
}

void EventLoop::Run() {
  const LoopScope scope(affinity_);
  epoll_event events[64];
  while (!stopping_.load(std::memory_order_relaxed)) {
    const int count = epoll_wait(epoll_.get(), events, 64, TimeoutMs());
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == kBellToken) {
        eventfd_t value;
        eventfd_read(bell_.get(), &value);
        continue;
      }
      // An earlier callback of this round may have removed it, and this one may remove itself.
      const auto it = watched_.find(events[i].data.u64);
      if (it == watched_.end()) continue;
      const std::shared_ptr<Callback> callback = it->second.callback;
      (*callback)();
    }
    RunPosted();
    RunTimers();
  }
  // The held objects are destroyed while the loop can still be posted to.
  watched_.clear();
  timers_.clear();
  RunPosted();
}

}  // namespace warpline
