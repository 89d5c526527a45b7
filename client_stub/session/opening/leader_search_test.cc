#include "client_stub/session/opening/leader_search.h"

#include <map>
#include <string>
#include <vector>

#include "client_stub/session/handshake/handshake.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/session.pb.h"

namespace warpline::stub {
namespace {

using testing::ElementsAre;

absl::Status RedirectTo(const std::string& endpoint, const std::string& token) {
  warpline_internal::Redirect redirect;
  redirect.set_endpoint(endpoint);
  redirect.set_token(token);
  return ParseRedirect(redirect.SerializeAsString());
}

class LeaderSearchTest : public testing::Test {
 protected:
  absl::Status Open(const std::string& endpoint, const std::string& token = "",
                    absl::Duration deadline = absl::Milliseconds(250)) {
    SessionOptions options;
    options.endpoint = endpoint;
    options.token = token;
    options.deadline = deadline;
    return OpenWhereLed(options, [this](const SessionOptions& to) {
      asked_.push_back(to.endpoint + (to.token.empty() ? "" : " with " + to.token));
      if (asked_.size() == led_from_) return absl::OkStatus();
      const auto found = answers_.find(to.endpoint);
      return found == answers_.end() ? absl::UnavailableError("nobody is there") : found->second;
    });
  }

  std::map<std::string, absl::Status> answers_;
  std::vector<std::string> asked_;
  size_t led_from_ = 0;  // The attempt that finds a leader; 0 for none.
};

TEST_F(LeaderSearchTest, OneThatDoesNotLeadNamesTheOneThatDoes) {
  answers_["b:1"] = RedirectTo("c:1", "");
  answers_["c:1"] = RedirectTo("gpu:1", "token");
  answers_["gpu:1"] = absl::OkStatus();
  EXPECT_TRUE(Open("a:1,b:1").ok());
  EXPECT_THAT(asked_, ElementsAre("a:1", "b:1", "c:1", "gpu:1 with token"));
}

TEST_F(LeaderSearchTest, SchedulersThatNameEachOtherAreLeft) {
  answers_["a:1"] = RedirectTo("b:1", "");
  answers_["b:1"] = RedirectTo("a:1", "");
  EXPECT_FALSE(Open("a:1").ok());
  EXPECT_LE(asked_.size(), 6u);
}

TEST_F(LeaderSearchTest, WhatNoOtherAddressWouldChangeIsTheAnswer) {
  answers_["a:1"] = absl::UnauthenticatedError("no such tenant");
  EXPECT_EQ(Open("a:1,b:1").code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(asked_, ElementsAre("a:1"));
}

TEST_F(LeaderSearchTest, AServerWhoseLeaseHasMovedIsFollowed) {
  answers_["a:1"] = RedirectTo("gpu:1", "token");
  answers_["gpu:1"] = RedirectTo("gpu:2", "newer");
  answers_["gpu:2"] = absl::OkStatus();
  EXPECT_TRUE(Open("a:1").ok());
  EXPECT_THAT(asked_, ElementsAre("a:1", "gpu:1 with token", "gpu:2 with newer"));
}

TEST_F(LeaderSearchTest, AServerThatNamesASchedulerIsNotFollowed) {
  answers_["gpu:1"] = RedirectTo("b:1", "");
  EXPECT_FALSE(Open("gpu:1", "lease").ok());
  EXPECT_THAT(asked_, ElementsAre("gpu:1 with lease"));
}

TEST_F(LeaderSearchTest, ServersThatNameEachOtherAreLeft) {
  answers_["a:1"] = RedirectTo("b:1", "token");
  answers_["b:1"] = RedirectTo("a:1", "token");
  EXPECT_FALSE(Open("a:1", "lease").ok());
  EXPECT_LE(asked_.size(), 6u);
}

TEST_F(LeaderSearchTest, OneAddressIsAskedOnceAndSeveralUntilTheDeadline) {
  EXPECT_FALSE(Open("a:1").ok());
  EXPECT_EQ(asked_.size(), 1u);
  asked_.clear();
  EXPECT_FALSE(Open("a:1,b:1").ok());
  EXPECT_GE(asked_.size(), 2u);
  asked_.clear();
  led_from_ = 6;
  EXPECT_TRUE(Open("a:1,b:1", "", absl::InfiniteDuration()).ok());
  EXPECT_THAT(asked_, ElementsAre("a:1", "b:1", "a:1", "b:1", "a:1", "b:1"));
}

}  // namespace
}  // namespace warpline::stub
