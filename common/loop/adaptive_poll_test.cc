#include "common/loop/adaptive_poll.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "gtest/gtest.h"

namespace warpline {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

TEST(AdaptivePollTest, IsOverSomeTimeAfterTheLastFind) {
  const AdaptivePoll::Clock::time_point begin = AdaptivePoll::Clock::now();
  AdaptivePoll poll(microseconds(200));
  poll.Found(begin);
  EXPECT_FALSE(poll.over(begin + microseconds(199)));
  EXPECT_TRUE(poll.over(begin + microseconds(200)));
  poll.Found(begin + microseconds(200));
  EXPECT_FALSE(poll.over(begin + microseconds(399)));
}

TEST(AdaptivePollTest, WithoutPatienceItIsOverAtOnce) {
  AdaptivePoll poll(microseconds(0));
  poll.Found(AdaptivePoll::Clock::now());
  EXPECT_TRUE(poll.over(AdaptivePoll::Clock::now()));
}

TEST(AdaptivePollTest, YieldsWhileManyLoopsAreAwake) {
  std::deque<AdaptivePoll> polls;
  // A machine with few processors yields always.
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
    polls.emplace_back(microseconds(200));
  }
  EXPECT_TRUE(polls.front().yields(AdaptivePoll::Clock::now()));
  std::deque<AdaptivePoll::Sleep> asleep;
  for (AdaptivePoll& poll : polls) asleep.emplace_back(&poll);
  EXPECT_EQ(polls.front().yields(AdaptivePoll::Clock::now()), FewProcessors());
}

// Two threads on one processor: each takes it from the other.
TEST(AdaptivePollTest, YieldsAProcessorThatOthersWant) {
  const int processor = sched_getcpu();
  ASSERT_GE(processor, 0);
  cpu_set_t before, one;
  ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof(before), &before), 0);
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  if (pthread_setaffinity_np(pthread_self(), sizeof(one), &one) != 0) GTEST_SKIP();
  std::atomic<bool> stop{false};
  // It inherits the processor.
  std::thread other([&] {
    while (!stop.load(std::memory_order_relaxed)) {
    }
  });
  AdaptivePoll poll(microseconds(200));
  const AdaptivePoll::Clock::time_point until = AdaptivePoll::Clock::now() + seconds(60);
  bool yields = false;
  while (!yields && AdaptivePoll::Clock::now() < until) {
    const AdaptivePoll::Clock::time_point begin = AdaptivePoll::Clock::now();
    poll.Rest();
    // It is not for the few processors of a machine that it yields then.
    yields = AdaptivePoll::Clock::now() - begin >= microseconds(300) &&
             poll.yields(AdaptivePoll::Clock::now());
  }
  stop.store(true);
  other.join();
  pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
  EXPECT_TRUE(yields);
  EXPECT_EQ(poll.yields(AdaptivePoll::Clock::now() + seconds(1)), FewProcessors());
}

}  // namespace
}  // namespace warpline
