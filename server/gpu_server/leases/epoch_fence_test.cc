#include "server/gpu_server/leases/epoch_fence.h"

#include "gtest/gtest.h"

namespace warpline::server {
namespace {

TEST(EpochFenceTest, OlderTermsAreRefusedForTheSameLeaseOnly) {
  EpochFence fence;
  EXPECT_TRUE(fence.Pass("a", 5).ok());
  EXPECT_TRUE(fence.Pass("a", 5).ok());
  EXPECT_TRUE(fence.Pass("a", 9).ok());
  EXPECT_EQ(fence.Pass("a", 5).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(fence.Pass("a", 0).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(fence.Pass("a", 9).ok());
  EXPECT_TRUE(fence.Pass("b", 5).ok());
}

TEST(EpochFenceTest, TheOnlySchedulersTokensPass) {
  EpochFence fence;
  EXPECT_TRUE(fence.Pass("a", 0).ok());
  EXPECT_TRUE(fence.Pass("a", 3).ok());
}

TEST(EpochFenceTest, WhatIsRememberedIsBounded) {
  EpochFence fence(2);
  EXPECT_TRUE(fence.Pass("a", 5).ok());
  EXPECT_TRUE(fence.Pass("b", 5).ok());
  EXPECT_TRUE(fence.Pass("c", 5).ok());
  EXPECT_TRUE(fence.Pass("a", 4).ok());
  EXPECT_FALSE(fence.Pass("c", 4).ok());
}

}  // namespace
}  // namespace warpline::server
