#include "server/hostlink/process/death_watch.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace warpline {
namespace {

// The number of liveness locks in one futex_waitv, which also waits for changes_.
constexpr size_t kMostLocks = FUTEX_WAITV_MAX - 1;
// An honest holder's word changes when it takes the lock, says that somebody waits, and dies.
constexpr int kMostChanges = 8;
constexpr long kLookEveryNs = 100'000'000;
constexpr long kSecondNs = 1'000'000'000;

futex_waitv Waiter(const std::atomic<uint32_t>* word, uint32_t value) {
  futex_waitv waiter = {};
  waiter.val = value;
  waiter.uaddr = reinterpret_cast<uintptr_t>(word);
  waiter.flags = FUTEX_32;  // Not private: other processes change the word.
  return waiter;
}

timespec Soon() {
  timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  at.tv_nsec += kLookEveryNs;
  if (at.tv_nsec >= kSecondNs) {
    at.tv_nsec -= kSecondNs;
    ++at.tv_sec;
  }
  return at;
}

}  // namespace

DeathWatch::DeathWatch() : thread_([this] { Run(); }) {}

DeathWatch::~DeathWatch() {
  stopping_.store(true);
  Nudge();
  thread_.join();
}

void DeathWatch::Nudge() {
  changes_.fetch_add(1);
  syscall(SYS_futex, &changes_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

DeathWatch::Token DeathWatch::Watch(std::shared_ptr<const LivenessLock> liveness,
                                    std::function<void()> ended) {
  Token token;
  {
    MutexLock lock(&mu_);
    token = next_token_++;
    watched_[token] = {std::move(liveness), std::move(ended)};
  }
  Nudge();
  return token;
}

void DeathWatch::Remove(Token token) {
  {
    MutexLock lock(&mu_);
    if (watched_.erase(token) == 0) return;
  }
  Nudge();
}

void DeathWatch::Sleep(uint32_t known, const std::vector<Awaited>& locks, bool look_soon) {
  std::vector<futex_waitv> waiters = {Waiter(&changes_, known)};
  const size_t count = std::min(locks.size(), kMostLocks);
  for (size_t i = 0; i < count; ++i) {
    waiters.push_back(Waiter(locks[i].lock->word(), locks[i].value));
  }
  const timespec soon = Soon();
  const timespec* const until = look_soon || locks.size() > count ? &soon : nullptr;
  if (syscall(SYS_futex_waitv, waiters.data(), static_cast<unsigned>(waiters.size()), 0, until,
              CLOCK_MONOTONIC) >= 0 ||
      errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT) {
    return;
  }
  // The kernel has no such call, or forbids it.
  const timespec nap = {0, kLookEveryNs};
  syscall(SYS_futex, &changes_, FUTEX_WAIT, known, &nap, nullptr, 0);
}

std::vector<DeathWatch::Awaited> DeathWatch::Look(std::vector<std::function<void()>>* ended,
                                                  bool* look_soon) {
  std::vector<Awaited> locks;
  *look_soon = false;
  looks_.fetch_add(1);
  MutexLock lock(&mu_);
  for (auto it = watched_.begin(); it != watched_.end();) {
    Watched& watched = it->second;
    const uint32_t value = watched.lock->word()->load(std::memory_order_acquire);
    if (watched.lock->Ended()) {
      ended->push_back(std::move(watched.ended));
      it = watched_.erase(it);
      continue;
    }
    if (value != watched.value && watched.changes <= kMostChanges) ++watched.changes;
    watched.value = value;
    if (watched.changes > kMostChanges) {
      *look_soon = true;
    } else {
      locks.push_back({watched.lock, value});
    }
    ++it;
  }
  return locks;
}

void DeathWatch::Run() {
  pthread_setname_np(pthread_self(), "death-watch");
  while (!stopping_.load()) {
    const uint32_t known = changes_.load();
    std::vector<std::function<void()>> ended;
    bool look_soon;
    const std::vector<Awaited> locks = Look(&ended, &look_soon);
    for (const auto& call : ended) call();
    if (ended.empty()) Sleep(known, locks, look_soon);
  }
}

}  // namespace warpline
