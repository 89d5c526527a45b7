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
    const LoopScope scope(&loop);
    loop.AssertOnLoop();
  }).join();
  loop.AssertOnLoop();
}

TEST(LoopAffinity, SeveralThreadsMayBeTheLoops) {
  LoopAffinity loop;
  const LoopScope scope(&loop);
  std::thread([&] {
    const LoopScope other(&loop);
    loop.AssertOnLoop();
  }).join();
  loop.AssertOnLoop();
}

TEST(LoopAffinity, AThreadGoesBackToItsFormerLoop) {
  LoopAffinity outer;
  LoopAffinity inner;
  const LoopScope scope(&outer);
  {
    const LoopScope meanwhile(&inner);
    inner.AssertOnLoop();
  }
  outer.AssertOnLoop();
}

TEST(LoopAffinityDeathTest, AnotherThreadEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        LoopAffinity loop;
        const LoopScope scope(&loop);
        std::thread([&] { loop.AssertOnLoop(); }).join();
      },
      "a function of one loop was called on another thread");
}

TEST(LoopAffinityDeathTest, TheThreadOfAnotherLoopEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        LoopAffinity loop;
        LoopAffinity other;
        const LoopScope scope(&loop);
        const LoopScope inner(&other);
        loop.AssertOnLoop();
      },
      "a function of one loop was called on another thread");
}

}  // namespace
}  // namespace warpline
