#include "server/gpu_server/admin/replacements.h"

#include <thread>

#include "gtest/gtest.h"
#include "server/gpu_server/testing/session_fixture.h"

namespace warpline::server {
namespace {

class ReplacementsTest : public SessionFixture {
 protected:
  static warpline_internal::ReplaceReply Finish(Replacements* replacements, uint64_t ticket) {
    while (true) {
      auto reply = replacements->Look(ticket);
      EXPECT_TRUE(reply.ok());
      if (!reply.ok() || reply->done()) return *reply;
      std::this_thread::yield();
    }
  }
};

TEST_F(ReplacementsTest, SessionsAreReplacedOneAfterAnother) {
  StartServer();
  auto first = DialAndOpen();
  auto second = DialAndOpen();
  Replacements replacements(host_.get());
  const auto ticket =
      replacements.Start(warpline_internal::ReplaceRequest::REPLACE, {1, 9, 2}, absl::Seconds(10));
  ASSERT_TRUE(ticket.ok());
  const auto reply = Finish(&replacements, *ticket);
  ASSERT_EQ(reply.sessions_size(), 3);
  EXPECT_EQ(reply.sessions(0).session(), 1u);
  EXPECT_EQ(reply.sessions(0).error(), "");
  EXPECT_EQ(reply.sessions(1).error(), "no session 9");
  EXPECT_EQ(reply.sessions(2).error(), "");
  EXPECT_EQ(host_->Snapshot().sessions.at(1).continuity.restarts, 1u);
}

TEST_F(ReplacementsTest, ARevokedSessionEndsWithAnErrorAndOthersGoOn) {
  StartServer();
  auto first = DialAndOpen();
  auto second = DialAndOpen();
  Replacements replacements(host_.get());
  const auto ticket = replacements.Start(warpline_internal::ReplaceRequest::REVOKE, {1, 9},
                                         absl::Seconds(10), 0, "it mines");
  ASSERT_TRUE(ticket.ok());
  const auto reply = Finish(&replacements, *ticket);
  ASSERT_EQ(reply.sessions_size(), 2);
  EXPECT_EQ(reply.sessions(0).error(), "");
  EXPECT_EQ(reply.sessions(1).error(), "no session 9");
  const auto fault = first->Await(kFault);
  ASSERT_TRUE(fault.has_value());
  warpline_internal::Fault parsed;
  ASSERT_TRUE(parsed.ParseFromString(*fault));
  EXPECT_EQ(parsed.error(), static_cast<int>(CudaResult::kNotPermitted));
  EXPECT_EQ(parsed.message(), "the server's operator ended the session: it mines");
  second->SendCommands(Body('e'));
  EXPECT_TRUE(second->Await(kReplies).has_value());
}

TEST_F(ReplacementsTest, WhileOneWaitsOthersAreAnswered) {
  StartServer();
  auto client = DialAndOpen();
  // The fake worker never says that a command is complete.
  client->SendCommands(Body('e'));
  EXPECT_TRUE(client->Await(kReplies).has_value());
  Replacements replacements(host_.get());
  const auto ticket =
      replacements.Start(warpline_internal::ReplaceRequest::REPLACE, {1}, absl::Seconds(30));
  ASSERT_TRUE(ticket.ok());
  EXPECT_FALSE(replacements.Look(*ticket)->done());
  const auto other =
      replacements.Start(warpline_internal::ReplaceRequest::REPLACE, {7}, absl::Seconds(30));
  EXPECT_TRUE(Finish(&replacements, *other).done());
  EXPECT_FALSE(replacements.Look(*ticket)->done());
  host_->FaultAll("the test is over");
  EXPECT_NE(Finish(&replacements, *ticket).sessions(0).error(), "");
}

TEST_F(ReplacementsTest, FinishedOnesAreForgottenForOthers) {
  StartServer();
  Replacements replacements(host_.get());
  const auto first =
      replacements.Start(warpline_internal::ReplaceRequest::REPLACE, {}, absl::Seconds(1));
  for (size_t i = 0; i < Replacements::kMostKept; ++i) {
    EXPECT_TRUE(
        replacements.Start(warpline_internal::ReplaceRequest::REPLACE, {}, absl::Seconds(1)).ok());
  }
  EXPECT_EQ(replacements.Look(*first).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace warpline::server
