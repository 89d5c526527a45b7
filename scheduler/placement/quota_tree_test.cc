#include "scheduler/placement/quota_tree.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace warpline::placement {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

Usage Of(uint64_t gib) { return {gib * kGiB, 1, 1, gib * 10}; }

QuotaTree Company() {
  QuotaTree tree;
  EXPECT_TRUE(tree.Put({.name = "acme", .memory_bytes = 100 * kGiB, .max_leases = 3}).ok());
  EXPECT_TRUE(tree.Put({.name = "vision", .parent = "acme", .memory_bytes = 80 * kGiB}).ok());
  EXPECT_TRUE(tree.Put({.name = "speech", .parent = "acme"}).ok());
  EXPECT_TRUE(tree.Put({.name = "ann", .parent = "vision", .max_sessions = 2}).ok());
  return tree;
}

TEST(QuotaTreeTest, LimitsOfAllThoseAboveHold) {
  QuotaTree tree = Company();
  EXPECT_TRUE(tree.Check("ann", Of(80)).ok());
  absl::Status status = tree.Check("ann", Of(81));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("vision"), std::string::npos) << status;
  tree.Charge("speech", Of(50));
  status = tree.Check("ann", Of(60));
  EXPECT_NE(status.message().find("acme"), std::string::npos) << status;
  EXPECT_EQ(tree.BytesLeft("ann"), 50 * kGiB);
  tree.Charge("ann", Of(10));
  tree.Charge("ann", Of(10));
  EXPECT_NE(tree.Check("ann", Of(1)).message().find("ann may have 2 sessions"), std::string::npos);
  EXPECT_NE(tree.Check("speech", Of(1)).message().find("acme holds 3 leases"), std::string::npos);
  tree.Discharge("ann", Of(10));
  EXPECT_TRUE(tree.Check("speech", Of(30)).ok());
  EXPECT_EQ(tree.UsageOf("acme").bytes, 60 * kGiB);
  EXPECT_EQ(tree.UsageOf("vision").bytes, 10 * kGiB);
}

TEST(QuotaTreeTest, UsageFollowsATenantThatMoves) {
  QuotaTree tree = Company();
  tree.Charge("ann", Of(30));
  ASSERT_TRUE(tree.Put({.name = "ann", .parent = "speech"}).ok());
  EXPECT_EQ(tree.UsageOf("vision").bytes, 0u);
  EXPECT_EQ(tree.UsageOf("speech").bytes, 30 * kGiB);
  EXPECT_EQ(tree.UsageOf("acme").bytes, 30 * kGiB);
  tree.Remove("speech");
  EXPECT_EQ(tree.UsageOf("acme").bytes, 0u);
  EXPECT_EQ(tree.UsageOf("ann").bytes, 30 * kGiB);
}

TEST(QuotaTreeTest, TenantsNestWithoutCyclesAndNotTooDeep) {
  QuotaTree tree = Company();
  EXPECT_EQ(tree.Put({.name = "acme", .parent = "ann"}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(tree.Put({.name = "acme", .parent = "acme"}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(tree.Put({.name = "bob", .parent = "nobody"}).code(),
            absl::StatusCode::kInvalidArgument);
  std::string parent = "ann";
  for (size_t depth = 4; depth <= kMaxDepth; ++depth) {
    const std::string name = absl::StrCat("d", depth);
    ASSERT_TRUE(tree.Put({.name = name, .parent = parent}).ok());
    parent = name;
  }
  EXPECT_FALSE(tree.Put({.name = "deep", .parent = parent}).ok());
  ASSERT_TRUE(tree.Put({.name = "top"}).ok());
  // Those below would be too deep.
  EXPECT_FALSE(tree.Put({.name = "acme", .parent = "top"}).ok());
  EXPECT_EQ(tree.Find("acme")->parent, "");
}

TEST(QuotaTreeTest, WhoHasLessForItsWeightGoesFirst) {
  QuotaTree tree;
  ASSERT_TRUE(tree.Put({.name = "big", .weight = 3}).ok());
  ASSERT_TRUE(tree.Put({.name = "small", .weight = 1}).ok());
  EXPECT_EQ(tree.Compare("big", "small"), 0);
  tree.Charge("big", Of(20));
  tree.Charge("small", Of(10));
  EXPECT_LT(tree.Compare("big", "small"), 0);
  tree.Charge("big", Of(20));
  EXPECT_GT(tree.Compare("big", "small"), 0);
  EXPECT_LT(tree.Compare("unknown", "small"), 0);
}

TEST(QuotaTreeTest, TurnsAreDecidedAtTheTopFirst) {
  QuotaTree tree;
  for (const char* org : {"a", "b"}) ASSERT_TRUE(tree.Put({.name = org}).ok());
  ASSERT_TRUE(tree.Put({.name = "a1", .parent = "a"}).ok());
  ASSERT_TRUE(tree.Put({.name = "a2", .parent = "a"}).ok());
  ASSERT_TRUE(tree.Put({.name = "b1", .parent = "b"}).ok());
  tree.Charge("a1", Of(30));
  tree.Charge("b1", Of(20));
  // a2 has nothing, but its organisation has more than the other one.
  EXPECT_GT(tree.Compare("a2", "b1"), 0);
  EXPECT_LT(tree.Compare("a2", "a1"), 0);
}

TEST(QuotaTreeTest, WhatIsReservedCoversALease) {
  QuotaTree tree;
  ASSERT_TRUE(tree.Put({.name = "org", .reserved_bytes = 50 * kGiB}).ok());
  ASSERT_TRUE(tree.Put({.name = "team", .parent = "org"}).ok());
  EXPECT_TRUE(tree.WithinReserve("team", 50 * kGiB));
  EXPECT_FALSE(tree.WithinReserve("team", 51 * kGiB));
  EXPECT_FALSE(tree.WithinReserve("stranger", 0));
  tree.Charge("team", Of(60));
  EXPECT_FALSE(tree.WithinReserve("team", 1));
  EXPECT_FALSE(tree.NeededForReserve("team", 10 * kGiB));
  EXPECT_TRUE(tree.NeededForReserve("team", 11 * kGiB));
  EXPECT_FALSE(tree.NeededForReserve("stranger", 11 * kGiB));
}

}  // namespace
}  // namespace warpline::placement
