#include "server/gpu_server/session/reclaim_policy.h"

#include <vector>

#include "gtest/gtest.h"

namespace warpline::server {
namespace {

using Ids = std::vector<uint64_t>;

TEST(ReclaimPolicyTest, NobodyWhoKeepsNothingIsHeldUp) {
  EXPECT_EQ(ReclaimPolicy().Choose({}), Ids());
  EXPECT_EQ(ReclaimPolicy().Choose({{1, 0}, {2, 0}}), Ids());
  EXPECT_EQ(ReclaimPolicy().Choose({{1, 0}, {2, 5}}), Ids({2}));
}

TEST(ReclaimPolicyTest, WhatKeepsMostIsTriedFirst) {
  EXPECT_EQ(ReclaimPolicy().Choose({{1, 5}, {2, 7}, {3, 6}}), Ids({2, 3, 1}));
  EXPECT_EQ(ReclaimPolicy().Choose({{1, 5}, {2, 5}}), Ids({2, 1}));
}

TEST(ReclaimPolicyTest, AScoreGoesBeforeWhatIsKept) {
  EXPECT_EQ(ReclaimPolicy().Choose({{1, 5, 2}, {2, 7, 1}, {3, 6, 2}, {4, 0, 9}}), Ids({3, 1, 2}));
}

TEST(ReclaimPolicyTest, WhoIsSparedIsNotHeldUp) {
  EXPECT_EQ(ReclaimPolicy().Choose({{1, 5, 0, true}, {2, 1}}), Ids({2}));
  EXPECT_EQ(ReclaimPolicy().Choose({{1, 5, 9, true}}), Ids());
}

TEST(ReclaimPolicyTest, OneRequestHoldsUpFourSessionsAtMost) {
  EXPECT_EQ(ReclaimPolicy().Choose({{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}}),
            Ids({6, 5, 4, 3}));
}

}  // namespace
}  // namespace warpline::server
