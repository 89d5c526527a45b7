#include "proto/leader_hint.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "proto/refusal.h"

namespace warpline {
namespace {

using warpline_internal::Refusal;

// An answer that a scheduler which is not trusted may give.
absl::Status Naming(const std::string& leader,
                    absl::Status status = absl::UnavailableError("elsewhere"),
                    Refusal::Reason reason = Refusal::ANOTHER_LEADS) {
  Refusal refusal;
  refusal.set_reason(reason);
  refusal.set_leader(leader);
  return WithRefusal(std::move(status), refusal);
}

TEST(LeaderHintTest, LeaderIsFound) {
  EXPECT_EQ(LeaderIn(AnotherScheduler("10.0.0.1:14100")), "10.0.0.1:14100");
  EXPECT_EQ(LeaderIn(AnotherScheduler("[::1]:14100", "the state: no answer")), "[::1]:14100");
  EXPECT_EQ(LeaderIn(AnotherScheduler("unix:/run/warpline")), "unix:/run/warpline");
  const std::string longest = std::string(253, 'a') + ":1";
  EXPECT_EQ(LeaderIn(AnotherScheduler(longest)), longest);
}

TEST(LeaderHintTest, TheTextSaysNothing) {
  EXPECT_EQ(LeaderIn(absl::UnavailableError("another scheduler leads: 10.0.0.1:14100")), "");
  EXPECT_EQ(LeaderIn(absl::UnavailableError(AnotherScheduler("a:1").message())), "");
  EXPECT_EQ(LeaderIn(Naming("a:1", absl::UnavailableError("another scheduler leads: b:1"))), "a:1");
}

TEST(LeaderHintTest, WhatNamesNoLeaderHasNone) {
  EXPECT_EQ(LeaderIn(AnotherScheduler("")), "");
  EXPECT_EQ(RefusalOf(AnotherScheduler("")).reason(), Refusal::ANOTHER_LEADS);
  EXPECT_EQ(LeaderIn(absl::OkStatus()), "");
  EXPECT_EQ(LeaderIn(Naming("here")), "");
  EXPECT_EQ(LeaderIn(Naming("a\n:1")), "");
  EXPECT_EQ(LeaderIn(Naming(std::string(300, 'a') + ":1")), "");
  EXPECT_EQ(LeaderIn(Naming("a:1", absl::NotFoundError("elsewhere"))), "");
  EXPECT_EQ(LeaderIn(Naming("a:1", absl::UnavailableError("none is up"), Refusal::NO_SERVER)), "");
}

}  // namespace
}  // namespace warpline
