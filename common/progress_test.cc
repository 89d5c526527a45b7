#include "common/progress.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(ProgressTest, WhatHoldsAlreadyIsNotWaitedFor) {
  Progress progress;
  progress.Await([] { return true; });
}

// Nothing but the notification ends the wait, so a lost one is a test that hangs.
TEST(ProgressTest, AWaitEndsWithTheChangeThatItWaitsFor) {
  Progress progress;
  std::atomic<bool> looked{false};
  std::atomic<bool> changed{false};
  std::thread waiter([&] {
    progress.Await([&] {
      looked = true;
      return changed.load();
    });
  });
  while (!looked) std::this_thread::yield();
  progress.Notify();  // Without a change the wait goes on.
  changed = true;
  progress.Notify();
  waiter.join();
}

TEST(ProgressTest, AWaitThatMayTakeNoTimeFindsWhatHoldsAlready) {
  Progress progress;
  EXPECT_TRUE(progress.AwaitFor(absl::ZeroDuration(), [] { return true; }));
  EXPECT_FALSE(progress.AwaitFor(absl::ZeroDuration(), [] { return false; }));
  EXPECT_FALSE(progress.AwaitFor(absl::Milliseconds(1), [] { return false; }));
}

TEST(ProgressTest, NoWakeUpIsLostBetweenManyChangesAndManyWaits) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 5000;
  Progress progress;
  std::atomic<int> count{0};
  std::atomic<int> wanted{0};
  std::vector<std::thread> changers;
  for (int i = 0; i < kThreads; ++i) {
    changers.emplace_back([&] {
      for (int round = 1; round <= kRounds; ++round) {
        while (wanted.load() < round) std::this_thread::yield();
        count.fetch_add(1);
        progress.Notify();
      }
    });
  }
  for (int round = 1; round <= kRounds; ++round) {
    wanted = round;
    progress.Await([&] { return count.load() >= round * kThreads; });
  }
  for (std::thread& changer : changers) changer.join();
  EXPECT_EQ(count, kRounds * kThreads);
}

}  // namespace
}  // namespace warpline
