#include "server/hostlink/process/death_watch.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <future>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace warpline {
namespace {

// A process that holds a liveness lock until it is killed.
class Holder {
 public:
  Holder() : lock_(*LivenessLock::Create()) {
    pid_ = fork();
    if (pid_ != 0) return;
    UniqueFd fd(dup(lock_->fd()));
    if (!HoldLivenessLock(fd).ok()) _exit(1);
    while (true) pause();
  }
  ~Holder() { Kill(); }

  std::shared_ptr<LivenessLock> lock() const { return lock_; }
  void AwaitHeld() const {
    while (lock_->word()->load() == 0) sched_yield();
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  const std::shared_ptr<LivenessLock> lock_;
  pid_t pid_ = 0;
};

TEST(DeathWatchTest, TellsOfTheOneThatDied) {
  Holder first, second;
  DeathWatch watch;
  std::promise<int> ended;
  watch.Watch(first.lock(), [&] { ended.set_value(1); });
  const DeathWatch::Token other = watch.Watch(second.lock(), [&] { ended.set_value(2); });
  second.AwaitHeld();
  first.AwaitHeld();
  first.Kill();
  EXPECT_EQ(ended.get_future().get(), 1);
  EXPECT_TRUE(first.lock()->Ended());
  EXPECT_FALSE(second.lock()->Ended());
  watch.Remove(other);
}

TEST(DeathWatchTest, NoticesADeathFromBeforeItWatched) {
  Holder holder;
  holder.AwaitHeld();
  holder.Kill();
  DeathWatch watch;
  std::promise<void> ended;
  watch.Watch(holder.lock(), [&] { ended.set_value(); });
  ended.get_future().get();
}

TEST(DeathWatchTest, SaysNothingOfOnesThatAreNotWatchedAnyMore) {
  Holder removed, watched;
  DeathWatch watch;
  std::promise<void> ended;
  bool wrong = false;
  const DeathWatch::Token token = watch.Watch(removed.lock(), [&] { wrong = true; });
  watch.Watch(watched.lock(), [&] { ended.set_value(); });
  removed.AwaitHeld();
  watched.AwaitHeld();
  watch.Remove(token);
  watch.Remove(token);
  watch.Remove(0);
  removed.Kill();
  watched.Kill();
  ended.get_future().get();
  EXPECT_FALSE(wrong);
}

// One system call takes 127 of them.
TEST(DeathWatchTest, WatchesMoreThanOneCallTakes) {
  DeathWatch watch;
  std::vector<DeathWatch::Token> others;
  for (int i = 0; i < 200; ++i) {
    others.push_back(watch.Watch(*LivenessLock::Create(), [] { ADD_FAILURE(); }));
  }
  Holder holder;
  std::promise<void> ended;
  watch.Watch(holder.lock(), [&] { ended.set_value(); });
  holder.AwaitHeld();
  holder.Kill();
  ended.get_future().get();
}

// A hostile worker can write what it likes.
TEST(DeathWatchTest, AWordThatChangesAllTheTimeCostsLittleAndItsEndIsNoticed) {
  const std::shared_ptr<LivenessLock> lock = *LivenessLock::Create();
  void* const map = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, lock->fd(), 0);
  ASSERT_NE(map, MAP_FAILED);
  auto* const word = static_cast<std::atomic<uint32_t>*>(map);
  DeathWatch watch;
  std::promise<void> ended;
  watch.Watch(lock, [&] { ended.set_value(); });
  // Far more often than the watch may look, however little either is let run.
  constexpr uint64_t kChanges = 200'000;
  const absl::Time start = absl::Now();
  for (uint64_t value = 1; value <= kChanges; ++value) {
    word->store(static_cast<uint32_t>(value & 0xffff));
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  // In this order, so that no look is counted for which there was no time.
  const auto looks = static_cast<double>(watch.looks());
  const absl::Duration took = absl::Now() - start;
  // death_watch.cc: the first changes are followed, and then it looks once in kLookEveryNs.
  constexpr double kFirst = 20, kLooksASecond = 10;
  EXPECT_LE(looks, kFirst + kLooksASecond * absl::ToDoubleSeconds(took));
  word->store(FUTEX_OWNER_DIED);
  ended.get_future().get();
  munmap(map, 4096);
}

TEST(LivenessLockTest, RefusesADescriptorThatIsNone) {
  EXPECT_FALSE(HoldLivenessLock(UniqueFd()).ok());
}

}  // namespace
}  // namespace warpline
