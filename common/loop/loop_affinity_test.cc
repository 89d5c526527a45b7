#include "common/loop/loop_affinity.h"

#include <thread>

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(LoopAffinity, EveryThreadMayWhileNoneHasEntered) {
  LoopAffinity loop;
  loop.AssertOnLoop();
  std::thread([&] { loop.AssertOnLoop(); }).join();
}

TEST(LoopAffinity, TheThreadThatEnteredMay) {
  LoopAffinity loop;
  std::thread([&] {
    loop.Enter();
    loop.AssertOnLoop();
    loop.Leave();
  }).join();
  loop.AssertOnLoop();
}

TEST(LoopAffinityDeathTest, AnotherThreadEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        LoopAffinity loop;
        std::thread([&] { loop.Enter(); }).join();
        loop.AssertOnLoop();
      },
      "a function of one loop was called on another thread");
}

TEST(LoopAffinityDeathTest, TheThreadOfAnotherLoopEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        LoopAffinity loop;
        LoopAffinity other;
        loop.Enter();
        other.Enter();
        loop.AssertOnLoop();
      },
      "a function of one loop was called on another thread");
}

}  // namespace
}  // namespace warpline
