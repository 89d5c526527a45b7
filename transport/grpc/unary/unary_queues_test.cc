#include "transport/grpc/unary/unary_queues.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace warpline::grpc_internal {
namespace {

const UnaryCaller kSomebody = {"somebody"};

// Keeps the thread busy until it is let go, while things are posted.
class Held {
 public:
  explicit Held(UnaryQueues* queues) {
    queues->Post(0, {"first"}, 0, [promises = promises_](bool) {
      promises->begun.set_value();
      promises->go.get_future().wait();
    });
    promises_->begun.get_future().wait();
  }
  void LetGo() { promises_->go.set_value(); }

 private:
  struct Promises {
    std::promise<void> begun, go;
  };
  // The work may end after this.
  const std::shared_ptr<Promises> promises_ = std::make_shared<Promises>();
};

TEST(UnaryQueuesTest, EachCallerHasItsTurnHoweverMuchAnotherHasWaiting) {
  std::string order;
  UnaryQueues queues(1, WaitingLimits());
  Held held(&queues);
  for (int i = 0; i < 50; ++i) queues.Post(0, {"a"}, 1, [&](bool) { order += 'a'; });
  for (int i = 0; i < 3; ++i) queues.Post(0, {"b"}, 1, [&](bool) { order += 'b'; });
  for (int i = 0; i < 2; ++i) queues.Post(0, {"c", true}, 1, [&](bool) { order += 'c'; });
  std::promise<void> done;
  for (int i = 0; i < 50; ++i) queues.Post(0, {"d"}, 1, [&](bool) { order += 'd'; });
  queues.Post(0, {"d"}, 1, [&](bool) { done.set_value(); });
  held.LetGo();
  done.get_future().wait();
  EXPECT_EQ(std::count(order.begin(), order.begin() + 14, 'b'), 3);
  EXPECT_EQ(std::count(order.begin(), order.begin() + 14, 'c'), 2);
}

TEST(UnaryQueuesTest, WhatACallerHasWaitingIsBoundedInNumberAndBytes) {
  UnaryQueues queues(1, {.most_of_caller = 3, .most_bytes_of_caller = 100});
  Held held(&queues);
  const auto post = [&](const char* name, size_t bytes) {
    return queues.Post(0, {name}, bytes, [](bool) {});
  };
  EXPECT_TRUE(post("many", 1));
  EXPECT_TRUE(post("many", 1));
  EXPECT_TRUE(post("many", 1));
  EXPECT_FALSE(post("many", 1));
  EXPECT_TRUE(post("large", 60));
  EXPECT_FALSE(post("large", 60));
  EXPECT_TRUE(post("large", 40));
  EXPECT_FALSE(post("larger", 101));
  EXPECT_TRUE(post("another", 100));
  held.LetGo();
}

TEST(UnaryQueuesTest, KnownCallersFindRoomWhenOthersFillTheQueue) {
  UnaryQueues queues(1, {.most_of_others = 10, .most_bytes_of_others = 100});
  Held held(&queues);
  int taken = 0;
  for (int i = 0; i < 100; ++i) {
    taken += queues.Post(0, {"stranger " + std::to_string(i)}, 1, [](bool) {}) ? 1 : 0;
  }
  EXPECT_EQ(taken, 10);
  EXPECT_TRUE(queues.Post(0, {"server", true}, 1000, [](bool) {}));
  EXPECT_FALSE(queues.Post(0, {"server"}, 1, [](bool) {}));
  held.LetGo();
}

// Work that has been done counts no more.
TEST(UnaryQueuesTest, RoomComesBack) {
  UnaryQueues queues(1, {.most_of_caller = 1, .most_of_others = 1});
  for (int i = 0; i < 1000; ++i) {
    std::promise<void> done;
    while (!queues.Post(0, kSomebody, 1, [&](bool) { done.set_value(); }))
      std::this_thread::yield();
    done.get_future().wait();
  }
}

TEST(UnaryQueuesTest, EachQueueHasItsTurnHoweverMuchWaitsInAnother) {
  std::promise<void> go;
  std::promise<void> done;
  std::string order;
  UnaryQueues queues(2, WaitingLimits());
  queues.Post(0, kSomebody, 1, [&](bool) { go.get_future().wait(); });
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(queues.Post(0, kSomebody, 1, [&](bool) { order += 'a'; }));
  }
  EXPECT_TRUE(queues.Post(1, kSomebody, 1, [&](bool) { order += 'b'; }));
  EXPECT_TRUE(queues.Post(1, kSomebody, 1, [&](bool) { order += 'b'; }));
  EXPECT_TRUE(queues.Post(0, kSomebody, 1, [&](bool) { done.set_value(); }));
  go.set_value();
  done.get_future().wait();
  EXPECT_EQ(order.substr(0, 5), "babaa");
  EXPECT_EQ(order.size(), 52u);
}

TEST(UnaryQueuesTest, WhatWaitsIsBounded) {
  std::promise<void> go;
  std::promise<void> begun;
  UnaryQueues queues(2, {.most_of_caller = 3});
  queues.Post(0, kSomebody, 1, [&](bool) {
    begun.set_value();
    go.get_future().wait();
  });
  begun.get_future().wait();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queues.Post(0, kSomebody, 1, [](bool) {}));
  EXPECT_FALSE(queues.Post(0, kSomebody, 1, [](bool) {}));
  EXPECT_TRUE(queues.Post(1, kSomebody, 1, [](bool) {}));
  go.set_value();
}

TEST(UnaryQueuesTest, WhatWaitsAtTheEndIsNotRunButCalled) {
  std::promise<void> go;
  std::promise<void> begun;
  int called = 0;
  int run = 0;
  UnaryQueues queues(1, {.most_of_caller = SIZE_MAX,
                         .most_bytes_of_caller = SIZE_MAX,
                         .most_of_others = SIZE_MAX,
                         .most_bytes_of_others = SIZE_MAX});
  queues.Post(0, kSomebody, 1, [&](bool) {
    begun.set_value();
    go.get_future().wait();
  });
  begun.get_future().wait();
  for (int i = 0; i < 5; ++i) {
    queues.Post(0, kSomebody, 1, [&](bool to_run) {
      ++called;
      run += to_run ? 1 : 0;
    });
  }
  const auto stopped = std::async(std::launch::async, [&] { queues.Stop(); });
  // Until it has begun to stop.
  while (queues.Post(0, kSomebody, 1, [](bool) {})) std::this_thread::yield();
  go.set_value();
  stopped.wait();
  EXPECT_EQ(called, 5);
  EXPECT_EQ(run, 0);
}

TEST(UnaryQueuesTest, WithoutAQueueThereIsNoThread) {
  UnaryQueues queues(0, WaitingLimits());
  queues.Stop();
}

}  // namespace
}  // namespace warpline::grpc_internal
