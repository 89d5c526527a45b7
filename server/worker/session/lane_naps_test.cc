#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "server/worker/lanes/lane_inbox.h"

namespace warpline::worker {
namespace {

TEST(LaneNapsTest, AFewLanesNapAsIfAlone) {
  LaneNaps naps;
  std::vector<std::unique_ptr<LaneNaps::Nap>> all;
  for (int64_t i = 0; i < LaneNaps::kUndisturbed; ++i) {
    all.push_back(std::make_unique<LaneNaps::Nap>(&naps, 500));
    EXPECT_EQ(all.back()->ns(), 500);
  }
}

TEST(LaneNapsTest, ManyLanesTogetherWakeNoMoreOften) {
  LaneNaps naps;
  std::vector<std::unique_ptr<LaneNaps::Nap>> all;
  for (int i = 0; i < 1024; ++i) all.push_back(std::make_unique<LaneNaps::Nap>(&naps, 500));
  // Each of them, the next time.
  all.pop_back();
  EXPECT_EQ(LaneNaps::Nap(&naps, 500).ns(), int64_t{500} * 1024 / LaneNaps::kUndisturbed);
  all.clear();
  EXPECT_EQ(LaneNaps::Nap(&naps, 500).ns(), 500);
}

}  // namespace
}  // namespace warpline::worker
