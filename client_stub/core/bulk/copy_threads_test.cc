#include "client_stub/core/bulk/copy_threads.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::stub {
namespace {

TEST(CopyThreadsTest, EachPartIsDoneOnceWhateverTheirNumber) {
  CopyThreads threads;
  for (const int parts : {0, 1, 2, 3, 17, 100}) {
    std::vector<std::atomic<int>> calls(static_cast<size_t>(parts));
    threads.Run(parts, [&](int part) { ++calls[static_cast<size_t>(part)]; });
    for (const auto& count : calls) EXPECT_EQ(count, 1);
  }
}

TEST(CopyThreadsTest, SeveralThreadsMayRunAtOnce) {
  CopyThreads threads;
  std::atomic<int> calls{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        std::atomic<int> own{0};
        threads.Run(5, [&](int) { ++own; });
        EXPECT_EQ(own, 5);
        calls += own;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(calls, 4 * 200 * 5);
}

}  // namespace
}  // namespace warpline::stub
