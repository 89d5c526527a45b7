#include "transport/grpc/unary/unary_lanes.h"

#include <cstddef>
#include <future>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace warpline::grpc_internal {
namespace {

TEST(UnaryLanesTest, EachLaneHasItsTurnHoweverMuchWaitsInAnother) {
  std::promise<void> go;
  std::promise<void> done;
  std::string order;
  UnaryLanes lanes(2, 100);
  lanes.Post(0, [&](bool) { go.get_future().wait(); });
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(lanes.Post(0, [&](bool) { order += 'a'; }));
  }
  EXPECT_TRUE(lanes.Post(1, [&](bool) { order += 'b'; }));
  EXPECT_TRUE(lanes.Post(1, [&](bool) { order += 'b'; }));
  EXPECT_TRUE(lanes.Post(0, [&](bool) { done.set_value(); }));
  go.set_value();
  done.get_future().wait();
  EXPECT_EQ(order.substr(0, 5), "babaa");
  EXPECT_EQ(order.size(), 52u);
}

TEST(UnaryLanesTest, WhatWaitsIsBounded) {
  std::promise<void> go;
  std::promise<void> begun;
  UnaryLanes lanes(2, 3);
  lanes.Post(0, [&](bool) {
    begun.set_value();
    go.get_future().wait();
  });
  begun.get_future().wait();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(lanes.Post(0, [](bool) {}));
  EXPECT_FALSE(lanes.Post(0, [](bool) {}));
  EXPECT_TRUE(lanes.Post(1, [](bool) {}));
  go.set_value();
}

TEST(UnaryLanesTest, WhatWaitsAtTheEndIsNotRunButCalled) {
  std::promise<void> go;
  std::promise<void> begun;
  int called = 0;
  int run = 0;
  UnaryLanes lanes(1, size_t{1} << 40);
  lanes.Post(0, [&](bool) {
    begun.set_value();
    go.get_future().wait();
  });
  begun.get_future().wait();
  for (int i = 0; i < 5; ++i) {
    lanes.Post(0, [&](bool to_run) {
      ++called;
      run += to_run ? 1 : 0;
    });
  }
  const auto stopped = std::async(std::launch::async, [&] { lanes.Stop(); });
  // Until it has begun to stop.
  while (lanes.Post(0, [](bool) {})) std::this_thread::yield();
  go.set_value();
  stopped.wait();
  EXPECT_EQ(called, 5);
  EXPECT_EQ(run, 0);
}

TEST(UnaryLanesTest, WithoutALaneThereIsNoThread) {
  UnaryLanes lanes(0, 10);
  lanes.Stop();
}

}  // namespace
}  // namespace warpline::grpc_internal
