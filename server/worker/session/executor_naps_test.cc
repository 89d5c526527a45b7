#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "server/worker/executors/executor_inbox.h"

namespace warpline::worker {
namespace {

TEST(ExecutorNapsTest, AFewExecutorsNapAsIfAlone) {
  ExecutorNaps naps;
  std::vector<std::unique_ptr<ExecutorNaps::Nap>> all;
  for (int64_t i = 0; i < ExecutorNaps::kUndisturbed; ++i) {
    all.push_back(std::make_unique<ExecutorNaps::Nap>(&naps, 500));
    EXPECT_EQ(all.back()->ns(), 500);
  }
}

TEST(ExecutorNapsTest, ManyExecutorsTogetherWakeNoMoreOften) {
  ExecutorNaps naps;
  std::vector<std::unique_ptr<ExecutorNaps::Nap>> all;
  for (int i = 0; i < 1024; ++i) all.push_back(std::make_unique<ExecutorNaps::Nap>(&naps, 500));
  // Each of them, the next time.
  all.pop_back();
  EXPECT_EQ(ExecutorNaps::Nap(&naps, 500).ns(), int64_t{500} * 1024 / ExecutorNaps::kUndisturbed);
  all.clear();
  EXPECT_EQ(ExecutorNaps::Nap(&naps, 500).ns(), 500);
}

}  // namespace
}  // namespace warpline::worker
