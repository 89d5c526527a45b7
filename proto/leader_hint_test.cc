#include "proto/leader_hint.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace warpline {
namespace {

TEST(LeaderHintTest, LeaderIsFoundInWhatPassedOtherWords) {
  EXPECT_EQ(LeaderIn(AnotherScheduler("10.0.0.1:14100")), "10.0.0.1:14100");
  EXPECT_EQ(LeaderIn(AnotherScheduler("[::1]:14100", "the state: no answer")), "[::1]:14100");
  EXPECT_EQ(LeaderIn(absl::UnavailableError(absl::StrCat(
                "no answer from a:1: ", AnotherScheduler("unix:/run/warpline").message()))),
            "unix:/run/warpline");
}

TEST(LeaderHintTest, WhatNamesNoLeaderHasNone) {
  EXPECT_EQ(LeaderIn(AnotherScheduler("")), "");
  EXPECT_EQ(LeaderIn(absl::OkStatus()), "");
  EXPECT_EQ(LeaderIn(absl::UnavailableError("another scheduler leads: ")), "");
  EXPECT_EQ(LeaderIn(absl::UnavailableError("another scheduler leads: here")), "");
  EXPECT_EQ(LeaderIn(absl::UnavailableError("another scheduler leads: a\n:1")), "");
  EXPECT_EQ(LeaderIn(absl::UnavailableError(
                absl::StrCat("another scheduler leads: ", std::string(300, 'a'), ":1"))),
            "");
  EXPECT_EQ(LeaderIn(absl::NotFoundError("another scheduler leads: a:1")), "");
}

}  // namespace
}  // namespace warpline
