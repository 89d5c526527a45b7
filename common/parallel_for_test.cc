#include "common/parallel_for.h"

#include <atomic>
#include <vector>

#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(ParallelForTest, DoesEachOnce) {
  for (const int threads : {0, 1, 3, 64}) {
    std::vector<std::atomic<int>> done(100);
    EXPECT_TRUE(ParallelFor(threads, done.size(), [&](uint64_t i) {
                  ++done[i];
                  return absl::OkStatus();
                }).ok());
    for (const auto& one : done) EXPECT_EQ(one, 1);
  }
  EXPECT_TRUE(ParallelFor(4, 0, [](uint64_t) { return absl::InternalError("called"); }).ok());
}

TEST(ParallelForTest, EndsWithTheFirstError) {
  std::atomic<int> calls{0};
  const auto fails = [&](uint64_t i) {
    ++calls;
    return i == 5 ? absl::DataLossError("five") : absl::OkStatus();
  };
  EXPECT_EQ(ParallelFor(1, 1000, fails), absl::DataLossError("five"));
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(ParallelFor(4, 1000000, fails), absl::DataLossError("five"));
}

}  // namespace
}  // namespace warpline
