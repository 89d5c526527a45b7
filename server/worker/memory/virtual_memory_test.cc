#include "server/worker/memory/virtual_memory.h"

#include <fcntl.h>

#include <utility>

#include "gtest/gtest.h"
#include "server/worker/testing/fake_context.h"

namespace warpline::worker {
namespace {

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kBase = 1ull << 40;

class VirtualMemoryTest : public testing::Test {
 protected:
  CudaResult Hold(uint64_t handle, uint64_t bytes) {
    return memory_.Hold(handle, bytes, UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)));
  }

  FakeContext context_;
  VirtualMemory memory_{&context_};
};

TEST_F(VirtualMemoryTest, OneHandleIsMappedAtTwoAddresses) {
  ASSERT_EQ(Hold(7, 2 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(memory_.Map(kBase, 2 * kMiB, 7, 3), CudaResult::kSuccess);
  EXPECT_EQ(memory_.Map(kBase + 4 * kMiB, 2 * kMiB, 7, 1), CudaResult::kSuccess);
  EXPECT_EQ(memory_.mappings(), 2u);
  EXPECT_EQ(context_.chunks(),
            (FakeContext::Chunks{{kBase, {2 * kMiB, 3}}, {kBase + 4 * kMiB, {2 * kMiB, 1}}}));
}

TEST_F(VirtualMemoryTest, AHandleOfSeveralChunksIsMappedAsAWhole) {
  ASSERT_EQ(Hold(7, 20 * kMiB), CudaResult::kSuccess);
  ASSERT_EQ(Hold(7, 2 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(memory_.Map(kBase, 20 * kMiB, 7, 3), CudaResult::kInvalidValue);
  EXPECT_EQ(memory_.Map(kBase, 22 * kMiB, 7, 3), CudaResult::kSuccess);
  EXPECT_EQ(context_.chunks(),
            (FakeContext::Chunks{{kBase, {20 * kMiB, 3}}, {kBase + 20 * kMiB, {2 * kMiB, 3}}}));
  EXPECT_EQ(memory_.SetAccess(kBase, 0), CudaResult::kSuccess);
  EXPECT_EQ(context_.chunks(),
            (FakeContext::Chunks{{kBase, {20 * kMiB, 0}}, {kBase + 20 * kMiB, {2 * kMiB, 0}}}));
}

TEST_F(VirtualMemoryTest, RefusesWhatIsThereAlreadyAndWhatIsNot) {
  ASSERT_EQ(Hold(7, 2 * kMiB), CudaResult::kSuccess);
  ASSERT_EQ(memory_.Map(kBase, 2 * kMiB, 7, 3), CudaResult::kSuccess);
  EXPECT_EQ(memory_.Map(kBase, 2 * kMiB, 7, 3), CudaResult::kInvalidValue);
  EXPECT_EQ(memory_.Map(kBase + 2 * kMiB, 2 * kMiB, 8, 3), CudaResult::kInvalidValue);
  EXPECT_EQ(memory_.Map(kBase + 2 * kMiB, 2 * kMiB, 7, 2), CudaResult::kInvalidValue);
  EXPECT_EQ(memory_.Map(~uint64_t{0}, 2 * kMiB, 7, 3), CudaResult::kInvalidValue);
  EXPECT_EQ(memory_.SetAccess(kBase + 2 * kMiB, 3), CudaResult::kInvalidValue);
  EXPECT_EQ(memory_.BeginUnmap(kBase + 2 * kMiB), CudaResult::kInvalidValue);
  EXPECT_EQ(context_.chunks().size(), 1u);
}

TEST_F(VirtualMemoryTest, AReleasedHandleIsMappedAgainWhereItWas) {
  ASSERT_EQ(Hold(7, 2 * kMiB), CudaResult::kSuccess);
  ASSERT_EQ(memory_.Map(kBase, 2 * kMiB, 7, 3), CudaResult::kSuccess);
  ASSERT_EQ(memory_.Map(kBase + 4 * kMiB, 2 * kMiB, 7, 1), CudaResult::kSuccess);
  EXPECT_EQ(memory_.Release(7), CudaResult::kSuccess);
  EXPECT_TRUE(context_.chunks().empty());
  EXPECT_EQ(memory_.mappings(), 2u);
  // Its addresses are not anybody else's meanwhile.
  ASSERT_EQ(Hold(8, 2 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(memory_.Map(kBase, 2 * kMiB, 8, 3), CudaResult::kInvalidValue);
  ASSERT_EQ(Hold(7, 2 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(context_.chunks(),
            (FakeContext::Chunks{{kBase, {2 * kMiB, 3}}, {kBase + 4 * kMiB, {2 * kMiB, 1}}}));
  EXPECT_EQ(memory_.Release(9), CudaResult::kInvalidValue);
}

TEST_F(VirtualMemoryTest, AReleasedHandleLeavesWhatIsBeingUnmappedAlone) {
  ASSERT_EQ(Hold(7, 2 * kMiB), CudaResult::kSuccess);
  ASSERT_EQ(memory_.Map(kBase, 2 * kMiB, 7, 3), CudaResult::kSuccess);
  ASSERT_EQ(memory_.BeginUnmap(kBase), CudaResult::kSuccess);
  EXPECT_EQ(memory_.Release(7), CudaResult::kSuccess);
  EXPECT_EQ(context_.chunks().size(), 1u);
  EXPECT_EQ(memory_.FinishUnmap(kBase), CudaResult::kSuccess);
  EXPECT_TRUE(context_.chunks().empty());
}

TEST_F(VirtualMemoryTest, AMappedHandleIsNotDropped) {
  ASSERT_EQ(Hold(7, 2 * kMiB), CudaResult::kSuccess);
  ASSERT_EQ(memory_.Map(kBase, 2 * kMiB, 7, 3), CudaResult::kSuccess);
  EXPECT_EQ(memory_.Drop(7), CudaResult::kIllegalState);
  EXPECT_EQ(memory_.BeginUnmap(kBase), CudaResult::kSuccess);
  EXPECT_EQ(memory_.BeginUnmap(kBase), CudaResult::kInvalidValue);
  EXPECT_EQ(memory_.SetAccess(kBase, 1), CudaResult::kInvalidValue);
  // Running work may still use it.
  EXPECT_EQ(memory_.Drop(7), CudaResult::kIllegalState);
  EXPECT_EQ(context_.chunks().size(), 1u);
  EXPECT_EQ(memory_.FinishUnmap(kBase), CudaResult::kSuccess);
  EXPECT_TRUE(context_.chunks().empty());
  EXPECT_EQ(memory_.Drop(7), CudaResult::kSuccess);
  EXPECT_EQ(memory_.Map(kBase, 2 * kMiB, 7, 3), CudaResult::kInvalidValue);
}

TEST_F(VirtualMemoryTest, WhatAJournalHadMappedIsMappedOnceItsHandleIsThere) {
  memory_.SetRestoring(true);
  EXPECT_EQ(memory_.Map(kBase, 22 * kMiB, 7, 3), CudaResult::kSuccess);
  EXPECT_EQ(memory_.SetAccess(kBase, 1), CudaResult::kSuccess);
  memory_.SetRestoring(false);
  ASSERT_EQ(Hold(7, 20 * kMiB), CudaResult::kSuccess);
  EXPECT_TRUE(context_.chunks().empty());
  ASSERT_EQ(Hold(7, 2 * kMiB), CudaResult::kSuccess);
  EXPECT_EQ(context_.chunks(),
            (FakeContext::Chunks{{kBase, {20 * kMiB, 1}}, {kBase + 20 * kMiB, {2 * kMiB, 1}}}));
  EXPECT_EQ(memory_.Map(kBase + 64 * kMiB, 2 * kMiB, 8, 3), CudaResult::kInvalidValue);
}

}  // namespace
}  // namespace warpline::worker
