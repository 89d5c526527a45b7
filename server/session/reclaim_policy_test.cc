#include "server/session/reclaim_policy.h"

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

TEST(ReclaimPolicyTest, OneRequestHoldsUpFourSessionsAtMost) {
  EXPECT_EQ(ReclaimPolicy().Choose({{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}}),
            Ids({6, 5, 4, 3}));
}

}  // namespace
}  // namespace warpline::server
