#include "common/log/log_budget.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/log/log_capture.h"
#include "gtest/gtest.h"

// Counts what the test's own thread allocates.
static thread_local size_t t_allocations = 0;

void* operator new(size_t bytes) {
  ++t_allocations;
  if (void* const block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }

namespace warpline {
namespace {

enum Line : size_t { kRefusedLine, kFullLine };
constexpr LogKind kLines[] = {{"refused", 3, absl::Seconds(10)}, {"full", 1, absl::Seconds(60)}};

class LogBudgetTest : public ::testing::Test {
 protected:
  LogBudget::Clock clock() {
    return [this] { return now_ns_.load(); };
  }
  void Pass(absl::Duration time) { now_ns_ += absl::ToInt64Nanoseconds(time); }
  void Say(LogBudget* budget, size_t kind = kRefusedLine) {
    if (const LogPermit permit = budget->Ask(kind)) permit.Info("line ", kind);
  }

  std::atomic<int64_t> now_ns_{1'000'000'000'000};
  LogCapture log_;
};

TEST_F(LogBudgetTest, TheFirstFewLinesAreSaidAndThenOneInEveryInterval) {
  LogBudget budget(kLines, "", clock());
  for (int i = 0; i < 100; ++i) Say(&budget);
  EXPECT_EQ(log_.LinesWith("line 0").size(), 3u);
  Pass(absl::Seconds(9.9));
  Say(&budget);
  EXPECT_EQ(log_.LinesWith("line 0").size(), 3u);
  Pass(absl::Seconds(0.1));
  for (int i = 0; i < 100; ++i) Say(&budget);
  EXPECT_EQ(log_.LinesWith("line 0").size(), 4u);
}

TEST_F(LogBudgetTest, TheNextLineSaysHowManyWereLeftOutAndInWhatTime) {
  LogBudget budget(kLines, "", clock());
  for (int i = 0; i < 44; ++i) Say(&budget);
  Pass(absl::Seconds(12));
  Say(&budget);
  const std::vector<std::string> lines = log_.LinesWith("line 0");
  ASSERT_EQ(lines.size(), 4u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(lines[i].find("more"), std::string::npos) << lines[i];
  EXPECT_NE(lines[3].find("line 0 (and 41 more in 12 s)"), std::string::npos) << lines[3];
}

TEST_F(LogBudgetTest, TheBurstComesBackWithTime) {
  LogBudget budget(kLines, "", clock());
  for (int i = 0; i < 3; ++i) Say(&budget);
  Pass(absl::Hours(10));
  for (int i = 0; i < 100; ++i) Say(&budget);
  EXPECT_EQ(log_.LinesWith("line 0").size(), 6u);
}

TEST_F(LogBudgetTest, KindsDoNotTakeFromEachOther) {
  LogBudget budget(kLines, "", clock());
  for (int i = 0; i < 100; ++i) Say(&budget, kRefusedLine);
  Say(&budget, kFullLine);
  EXPECT_EQ(log_.LinesWith("line 1").size(), 1u);
}

TEST_F(LogBudgetTest, WhatIsPendingAtTheEndIsSaidOnce) {
  {
    LogBudget budget(kLines, "session=7", clock());
    for (int i = 0; i < 10; ++i) Say(&budget, kRefusedLine);
    for (int i = 0; i < 3; ++i) Say(&budget, kFullLine);
    Pass(absl::Seconds(5));
    budget.Finish();
  }
  const std::vector<std::string> lines = log_.LinesWith("left out");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("log lines left out session=7 refused=7 full=2 seconds=5"),
            std::string::npos)
      << lines[0];
}

TEST_F(LogBudgetTest, NothingIsSaidAtTheEndWhenNothingIsPending) {
  {
    LogBudget budget(kLines, "", clock());
    for (int i = 0; i < 10; ++i) Say(&budget);
    Pass(absl::Seconds(10));
    Say(&budget);
  }
  EXPECT_EQ(log_.LinesWith("left out").size(), 0u);
}

TEST_F(LogBudgetTest, ALongTextDoesNotCoverHowManyWereLeftOut) {
  LogBudget budget(kLines, "", clock());
  for (int i = 0; i < 10; ++i) Say(&budget);
  Pass(absl::Seconds(10));
  const LogPermit permit = budget.Ask(kRefusedLine);
  ASSERT_TRUE(permit);
  permit.Warning(std::string(100'000, '\x01'));
  EXPECT_EQ(log_.LinesWith("...").size(), 1u);
  EXPECT_EQ(log_.LinesWith("... (and 7 more in 10 s)").size(), 1u);
}

TEST_F(LogBudgetTest, ALineThatIsLeftOutAllocatesNothing) {
  LogBudget budget(kLines, "", clock());
  for (int i = 0; i < 3; ++i) Say(&budget);
  const size_t before = t_allocations;
  for (int i = 0; i < 1000; ++i) Say(&budget);
  EXPECT_EQ(t_allocations, before);
  Pass(absl::Seconds(10));
  Say(&budget);
  EXPECT_GT(t_allocations, before);
}

TEST_F(LogBudgetTest, WhatAnyBudgetLeavesOutIsCountedElsewhereToo) {
  std::atomic<uint64_t> total{0};
  LogBudget budget(kLines, "", clock());
  LogBudget other(kLines, "", clock());
  LogBudget::CountAllIn(&total);
  for (int i = 0; i < 10; ++i) Say(&budget, kRefusedLine);
  for (int i = 0; i < 10; ++i) Say(&other, kFullLine);
  Pass(absl::Minutes(10));
  for (int i = 0; i < 5; ++i) Say(&budget, kRefusedLine);
  LogBudget::CountAllIn(nullptr);
  for (int i = 0; i < 5; ++i) Say(&budget, kRefusedLine);
  EXPECT_EQ(total.load(), 7u + 9u + 2u);
}

TEST_F(LogBudgetTest, ThreadsTogetherGetOneBudgetAndEveryLineIsCounted) {
  constexpr int kThreads = 8, kEach = 20'000;
  std::atomic<uint64_t> said{0}, left_out{0};
  {
    LogBudget budget(kLines, "", clock());
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < kEach; ++i) {
          if (i % 1000 == 0) Pass(absl::Seconds(1));
          const LogPermit permit = budget.Ask(kRefusedLine);
          if (!permit) continue;
          ++said;
          left_out += permit.left_out();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    left_out += budget.TakeLeftOut(kRefusedLine);
  }
  EXPECT_EQ(said + left_out, uint64_t{kThreads} * kEach);
  // 160 seconds have passed.
  EXPECT_GE(said, 3u);
  EXPECT_LE(said, 3u + 16u);
}

TEST_F(LogBudgetTest, TheUsualClockGoesOn) {
  const int64_t before = LogBudget::CoarseNanos();
  EXPECT_GT(before, 0);
  EXPECT_GE(LogBudget::CoarseNanos(), before);
}

}  // namespace
}  // namespace warpline
