#include "server/worker/commands/leaving.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace warpline::worker {
namespace {

TEST(LeavingTest, CountsWhatSomebodyHas) {
  Leaving leaving;
  auto object = std::make_shared<int>(1);
  leaving.Add(object, 30);
  leaving.Add(nullptr, 1000);
  EXPECT_TRUE(leaving.AtMost(30));
  EXPECT_FALSE(leaving.AtMost(29));
  object.reset();
  EXPECT_TRUE(leaving.AtMost(0));
  EXPECT_EQ(leaving.sum(), 0u);
}

TEST(LeavingTest, ForgetsAsItGoes) {
  Leaving leaving;
  std::vector<std::shared_ptr<int>> kept;
  for (int i = 0; i < 100; ++i) {
    kept.push_back(std::make_shared<int>(i));
    leaving.Add(kept.back(), 1);
  }
  EXPECT_EQ(leaving.sum(), 100u);
  for (int i = 0; i < 10'000; ++i) leaving.Add(std::make_shared<int>(i), 1);
  EXPECT_LE(leaving.sum(), 300u);
  EXPECT_TRUE(leaving.AtMost(100));
  EXPECT_FALSE(leaving.AtMost(99));
}

}  // namespace
}  // namespace warpline::worker
