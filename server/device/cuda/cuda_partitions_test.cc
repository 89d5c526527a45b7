// Tests partitions against a driver that counts: which green contexts are made on the way, and that
// none is left.
#include <memory>

#include "common/cuda/sm_path.h"
#include "gtest/gtest.h"
#include "server/device/cuda/cuda_context.h"
#include "server/device/cuda/testing/timeline_driver.h"

namespace warpline::device {
namespace {

// The group of so many multiprocessors that a split of its own makes.
SmStep GroupOf(uint32_t least) {
  SmStep step;
  step.least = least;
  step.groups = 1;
  step.Take(0);
  return step;
}

class CudaPartitionsTest : public testing::Test {
 protected:
  void SetUp() override { Open(); }

  void Open() {
    context_ = nullptr;
    const int ordinals[] = {0};
    auto group = CudaGroup::Open(driver_.api(), ordinals);
    ASSERT_TRUE(group.ok()) << group.status();
    context_ = std::make_unique<CudaContext>(
        std::make_unique<CudaMember>(CudaMember{driver_.api(), *group, 0}));
  }

  TimelineDriver driver_;
  std::unique_ptr<CudaContext> context_;
};

TEST_F(CudaPartitionsTest, WhatTheDeviceHasIsSplitWithoutAGreenContext) {
  SmStep split = GroupOf(8);
  split.groups = 3;
  SmSplitResult result;
  ASSERT_EQ(context_->Split({}, split, &result), CudaResult::kSuccess);
  EXPECT_EQ(result.whole.count, 132u);
  ASSERT_EQ(result.groups.size(), 3u);
  EXPECT_EQ(result.groups[2].count, 8u);
  split.groups = kCountSmGroups;
  ASSERT_EQ(context_->Split({}, split, &result), CudaResult::kSuccess);
  EXPECT_EQ(result.count, 16u);
  EXPECT_EQ(driver_.Count("cuGreenCtxCreate"), 0);
}

TEST_F(CudaPartitionsTest, WhatLiesDeeperIsReachedThroughGreenContextsThatEnd) {
  PartitionId partition{};
  ASSERT_EQ(context_->CreatePartition({GroupOf(64), GroupOf(32), GroupOf(8)}, &partition),
            CudaResult::kSuccess);
  EXPECT_EQ(driver_.Count("cuGreenCtxCreate"), 3);
  EXPECT_EQ(driver_.Count("cuGreenCtxDestroy"), 2);
  SmSplitResult result;
  ASSERT_EQ(context_->Split({GroupOf(64)}, SmStep(), &result), CudaResult::kSuccess);
  EXPECT_EQ(driver_.Count("cuGreenCtxDestroy"), 3);
  StreamId stream{};
  ASSERT_EQ(context_->CreateStreamIn(partition, 0, &stream), CudaResult::kSuccess);
  EXPECT_EQ(driver_.Count("cuGreenCtxStreamCreate"), 1);
  EXPECT_EQ(context_->DestroyStream(stream), CudaResult::kSuccess);
  EXPECT_EQ(context_->DestroyPartition(partition), CudaResult::kSuccess);
  context_ = nullptr;
  EXPECT_EQ(driver_.Live(), "");
  EXPECT_EQ(driver_.Misuse(), "");
}

TEST_F(CudaPartitionsTest, AFailureOnTheWayLeavesNothing) {
  driver_.Fail("cuGreenCtxCreate", 3);
  PartitionId partition{};
  EXPECT_EQ(context_->CreatePartition({GroupOf(64), GroupOf(32), GroupOf(8)}, &partition),
            CudaResult::kOutOfMemory);
  context_ = nullptr;
  EXPECT_EQ(driver_.Live(), "");
}

TEST_F(CudaPartitionsTest, ALimitIsAGreenContextThatIsMadeOnce) {
  context_->LimitPartitions(70);
  EXPECT_EQ(driver_.Count("cuGreenCtxCreate"), 0);
  SmSplitResult result;
  ASSERT_EQ(context_->Split({}, SmStep(), &result), CudaResult::kSuccess);
  EXPECT_EQ(result.whole.count, 64u);
  ASSERT_EQ(context_->Split({}, GroupOf(8), &result), CudaResult::kSuccess);
  EXPECT_EQ(driver_.Count("cuGreenCtxCreate"), 1);
  context_ = nullptr;
  EXPECT_EQ(driver_.Live(), "");
}

TEST_F(CudaPartitionsTest, WithoutGreenContextsThereAreNone) {
  driver_.DropGreenContexts();
  Open();
  SmSplitResult result;
  PartitionId partition{};
  EXPECT_EQ(context_->Split({}, SmStep(), &result), CudaResult::kNotSupported);
  EXPECT_EQ(context_->CreatePartition({}, &partition), CudaResult::kNotSupported);
}

}  // namespace
}  // namespace warpline::device
