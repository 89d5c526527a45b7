#include "client_stub/core/registered/fault_blocking.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

void BlockAll(int how) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(how, &all, nullptr);
}

// Runs `body` on a thread with all signals blocked while it lives.
class Blocked {
 public:
  explicit Blocked(std::function<void()> body)
      : thread_([this, body = std::move(body)] {
          BlockAll(SIG_BLOCK);
          blocked_.Notify();
          body();
        }) {
    blocked_.WaitForNotification();
  }
  ~Blocked() { thread_.join(); }

 private:
  absl::Notification blocked_;
  std::thread thread_;
};

TEST(FaultBlockingTest, AThreadThatSleepsWithThemBlockedIsFoundUntilItEnds) {
  ASSERT_TRUE(AwaitFaultsUnblocked());
  absl::Notification end;
  {
    Blocked thread([&] { end.WaitForNotification(); });
    EXPECT_FALSE(AwaitFaultsUnblocked());
    EXPECT_FALSE(AwaitFaultsUnblocked());
    end.Notify();
  }
  EXPECT_TRUE(AwaitFaultsUnblocked());
}

TEST(FaultBlockingTest, AThreadThatRunsWithThemBlockedIsFound) {
  std::atomic<bool> end{false};
  Blocked thread([&] {
    while (!end.load()) {
    }
  });
  EXPECT_FALSE(AwaitFaultsUnblocked());
  end.store(true);
}

TEST(FaultBlockingTest, OneThatUnblocksThemIsForgotten) {
  absl::Notification unblock, unblocked, end;
  Blocked thread([&] {
    unblock.WaitForNotification();
    BlockAll(SIG_UNBLOCK);
    unblocked.Notify();
    end.WaitForNotification();
  });
  EXPECT_FALSE(AwaitFaultsUnblocked());
  unblock.Notify();
  unblocked.WaitForNotification();
  EXPECT_TRUE(AwaitFaultsUnblocked());
  end.Notify();
}

TEST(FaultBlockingTest, TheCallingThreadMayBlockThem) {
  BlockAll(SIG_BLOCK);
  EXPECT_TRUE(AwaitFaultsUnblocked());
  BlockAll(SIG_UNBLOCK);
}

TEST(FaultBlockingTest, ThreadsThatComeAndGoBlockThemForAMoment) {
  std::atomic<bool> end{false};
  std::thread creator([&] {
    while (!end.load()) {
      std::thread([] {}).join();
      std::atomic<bool> gone{false};
      std::thread([&] { gone.store(true); }).detach();
      while (!gone.load()) std::this_thread::yield();
    }
  });
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(AwaitFaultsUnblocked());
  end.store(true);
  creator.join();
}

}  // namespace
}  // namespace warpline::stub
