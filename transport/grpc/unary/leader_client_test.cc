#include "transport/grpc/unary/leader_client.h"

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "proto/leader_hint.h"
#include "proto/refusal.h"
#include "transport/testing/unary_server.h"

namespace warpline {
namespace {

constexpr char kMethod[] = "/test.Service/Ask";

// A scheduler that gives the same answer to every call.
class Answerer {
 public:
  explicit Answerer(absl::StatusOr<std::string> answer)
      : server_({{kMethod, [this, answer](const std::string&, const std::string&) {
                    asked_.fetch_add(1);
                    return answer;
                  }}}) {}

  const std::string& address() const { return server_.address(); }
  int asked() const { return asked_.load(); }

 private:
  std::atomic<int> asked_{0};
  testing::UnaryServer server_;
};

absl::StatusOr<std::string> Ask(const std::vector<std::string>& addresses) {
  const LeaderClient client(
      addresses, [](const std::string& address) { return GrpcTarget{.address = address}; },
      absl::Seconds(20));
  return client.Call(kMethod, "", absl::Seconds(20));
}

TEST(LeaderClientTest, GoesOnToTheLeaderThatAnAnswerNames) {
  const Answerer leader("granted");
  const Answerer follower(AnotherScheduler(leader.address()));
  EXPECT_EQ(Ask({follower.address()}).value_or(""), "granted");
}

TEST(LeaderClientTest, ATextThatNamesALeaderSendsNobodyThere) {
  const Answerer other("granted");
  const Answerer first(absl::UnavailableError(AnotherScheduler(other.address()).message()));
  EXPECT_TRUE(absl::IsUnavailable(Ask({first.address()}).status()));
  EXPECT_EQ(other.asked(), 0);
}

TEST(LeaderClientTest, WhatTheLeaderSaysOfItsPoolIsTheAnswer) {
  const Answerer other("granted");
  const Answerer leader(NoServer("none is up"));
  const auto answer = Ask({leader.address(), other.address()});
  EXPECT_EQ(RefusalOf(answer.status()).reason(), warpline_internal::Refusal::NO_SERVER);
  EXPECT_EQ(answer.status().message(), "none is up");
  EXPECT_EQ(other.asked(), 0);
}

TEST(LeaderClientTest, TheSameWordsWithoutAReasonAreNoAnswer) {
  const Answerer other("granted");
  const Answerer leader(absl::UnavailableError(NoServer("none is up").message()));
  EXPECT_EQ(Ask({leader.address(), other.address()}).value_or(""), "granted");
}

TEST(LeaderClientTest, WhereNoneLeadsTheNextAddressIsAsked) {
  const Answerer other("granted");
  const Answerer first(AnotherScheduler(""));
  EXPECT_EQ(Ask({first.address(), other.address()}).value_or(""), "granted");
}

}  // namespace
}  // namespace warpline
