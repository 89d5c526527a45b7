#include "server/hostlink/process/event_loop.h"

#include <sys/eventfd.h>

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(EventLoopTest, PostedFunctionsRunInOrder) {
  EventLoop loop("test");
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) loop.Post([&order, i] { order.push_back(i); });
  loop.Flush();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(EventLoopTest, DestructionRunsWhatWasPosted) {
  int ran = 0;
  {
    EventLoop loop("test");
    loop.Post([&] { loop.Post([&] { ++ran; }); });
  }
  EXPECT_EQ(ran, 1);
}

TEST(EventLoopTest, WatchedDescriptorCallsUntilRemoved) {
  const UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  EventLoop loop("test");
  int calls = 0;
  EventLoop::Token token = 0;
  loop.Post([&] {
    token = loop.Watch(event.get(), [&] {
      if (++calls == 3) loop.Remove(token);  // Level-triggered: the event is never read.
    });
  });
  eventfd_write(event.get(), 1);
  while (true) {
    int seen = 0;
    loop.Post([&] { seen = calls; });
    loop.Flush();
    if (seen == 3) break;
  }
  loop.Flush();
  EXPECT_EQ(calls, 3);
}

TEST(EventLoopTest, TimersRunInOrderAndRemovedOnesDoNot) {
  EventLoop loop("test");
  std::vector<int> order;
  loop.Post([&] {
    loop.RunAfter(absl::Milliseconds(2), [&] { order.push_back(2); });
    loop.RunAfter(absl::Milliseconds(1), [&] { order.push_back(1); });
    loop.Remove(loop.RunAfter(absl::Milliseconds(1), [&] { order.push_back(9); }));
  });
  while (true) {
    size_t seen = 0;
    loop.Post([&] { seen = order.size(); });
    loop.Flush();
    if (seen == 2) break;
  }
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(EventLoopTest, WatchingABadDescriptorIsReported) {
  EventLoop loop("test");
  EventLoop::Token token = 1;
  loop.Post([&] { token = loop.Watch(-1, [] {}); });
  loop.Flush();
  EXPECT_EQ(token, 0u);
}

}  // namespace
}  // namespace warpline
