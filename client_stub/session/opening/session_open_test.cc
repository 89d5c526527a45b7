// Opening a session: the request, the accepted answers, and refusals.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "client_stub/session/handshake/handshake.h"
#include "client_stub/session/opening/session_impl.h"
#include "client_stub/session/testing/fake_server.h"
#include "gtest/gtest.h"
#include "proto/frames.h"
#include "proto/refusal.h"

namespace warpline::stub {
namespace {

TEST(SessionOpenTest, OpenSessionKnowsItsDeviceAndArena) {
  FakeServer server;
  auto session = OpenSession({}, server.MakeDialer());
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->terms().device().name, "Fake device");
  EXPECT_EQ((*session)->terms().device().total_bytes, FakeServer::kQuota);
  EXPECT_EQ((*session)->terms().device().attributes[16], 132);
  EXPECT_EQ((*session)->terms().arena_base % (*session)->terms().arena_bytes, 0u);
  EXPECT_EQ((*session)->terms().initial_grant.va, (*session)->terms().arena_base + kArenaMargin);
  EXPECT_EQ((*session)->terms().initial_grant.bytes, 64ull << 20);
  EXPECT_EQ((*session)->status().error(), CudaResult::kSuccess);
  EXPECT_EQ((*session)->counters().open_round_trips, 1u);
}

TEST(SessionOpenTest, RefusalComesBackAsTheServersStatus) {
  FakeServer server;
  server.admit = [](const auto&) { return absl::NotFoundError("no device 9"); };
  const auto session = OpenSession({}, server.MakeDialer());
  EXPECT_EQ(session.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(session.status().message(), "no device 9");
}

// A scheduler gives a lease with each redirect.
TEST(SessionOpenTest, RedirectIsAskedForOnceAndFollowed) {
  FakeServer scheduler;
  int hellos = 0;
  scheduler.admit = [&](const warpline_internal::Hello&) {
    ++hellos;
    warpline_internal::Redirect redirect;
    redirect.set_endpoint("gpu:14000");
    redirect.set_token("token");
    scheduler.Send(kRedirect, redirect.SerializeAsString());
    return absl::UnavailableError("the scheduler has said what it had to say");
  };
  SessionOptions options;
  const auto session = OpenSession(options, scheduler.MakeDialer());
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(hellos, 1);
  ASSERT_TRUE(FollowRedirect(session.status(), &options)) << session.status();
  EXPECT_EQ(options.endpoint, "gpu:14000");
  EXPECT_EQ(options.token, "token");
}

TEST(SessionOpenTest, ConnectionLostBeforeTheAnswerIsMadeAgain) {
  FakeServer server;
  int hellos = 0;
  server.admit = [&](const warpline_internal::Hello&) {
    return ++hellos < 3 ? absl::UnavailableError("connection lost") : absl::OkStatus();
  };
  EXPECT_TRUE(OpenSession({}, server.MakeDialer()).ok());
  EXPECT_EQ(hellos, 3);
}

TEST(SessionOpenTest, FailureToConnectComesBack) {
  const auto session = OpenSession({}, [](const DialTarget&, ChannelHandler*, absl::Duration) {
    return absl::StatusOr<std::unique_ptr<Channel>>(absl::UnavailableError("nobody there"));
  });
  EXPECT_EQ(session.status().code(), absl::StatusCode::kUnavailable);
}

TEST(SessionOpenTest, SilentServerIsGivenUpAtTheDeadline) {
  FakeServer server;
  server.silent = true;
  SessionOptions options;
  options.open_deadline = absl::Milliseconds(50);
  const absl::Time start = absl::Now();
  const auto session = OpenSession(options, server.MakeDialer());
  EXPECT_EQ(session.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(50));
}

TEST(SessionOpenTest, ServerThatEndsTheSessionAtOnceIsUnavailable) {
  FakeServer server;
  int hellos = 0;
  server.admit = [&](const auto&) {
    ++hellos;
    return absl::UnavailableError("draining");
  };
  SessionOptions options;
  options.deadline = absl::Milliseconds(100);
  EXPECT_EQ(OpenSession(options, server.MakeDialer()).status().code(),
            absl::StatusCode::kUnavailable);
  // The attempts come after 10, 20 and 40 ms.
  EXPECT_LE(hellos, 4);
}

TEST(SessionOpenTest, ServerThatTakesNobodyForAWhileIsTriedAgain) {
  FakeServer server;
  int hellos = 0;
  server.admit = [&](const warpline_internal::Hello&) {
    return ++hellos < 4 ? absl::UnavailableError("draining") : absl::OkStatus();
  };
  EXPECT_TRUE(OpenSession({}, server.MakeDialer()).ok());
}

TEST(SessionOpenTest, AnotherPlaceIsTriedWhenTheArenaIsRefused) {
  FakeServer server;
  std::vector<std::pair<uint64_t, uint64_t>> tried;
  server.admit = [&](const warpline_internal::Hello& hello) {
    tried.push_back({hello.arena_base(), hello.arena_bytes()});
    return tried.size() < 3 ? ArenaUnavailable("taken") : absl::OkStatus();
  };
  auto session = OpenSession({}, server.MakeDialer());
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_EQ(tried.size(), 3u);
  EXPECT_NE(tried[0], tried[1]);
  EXPECT_NE(tried[1], tried[2]);
  EXPECT_EQ((*session)->terms().arena_base, tried[2].first);
}

TEST(SessionOpenTest, ArenaIsNotTriedForever) {
  FakeServer server;
  int tries = 0;
  server.admit = [&](const warpline_internal::Hello&) {
    ++tries;
    return ArenaUnavailable("taken");
  };
  const absl::Status status = OpenSession({}, server.MakeDialer()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "6 were tried")) << status;
  EXPECT_EQ(tries, 6);
}

// A server from before there were typed refusals, whose texts are for people.
TEST(SessionOpenTest, TextsAboutArenasAreNotTakenForRefusals) {
  for (const absl::Status& said : {absl::AbortedError("the worker cannot reserve the arena"),
                                   absl::FailedPreconditionError("no such arena here")}) {
    FakeServer server;
    int tries = 0;
    server.admit = [&](const warpline_internal::Hello&) {
      ++tries;
      return said;
    };
    EXPECT_EQ(OpenSession({}, server.MakeDialer()).status(), said);
    EXPECT_EQ(tries, 1);
  }
}

TEST(SessionOpenTest, OtherPreconditionsAreNotRetried) {
  FakeServer server;
  int tries = 0;
  server.admit = [&](const warpline_internal::Hello&) {
    ++tries;
    return absl::FailedPreconditionError("client too old");
  };
  EXPECT_FALSE(OpenSession({}, server.MakeDialer()).ok());
  EXPECT_EQ(tries, 1);
}

TEST(SessionOpenTest, BadWelcomeIsAnError) {
  FakeServer server;
  server.edit_welcome = [](const auto&, warpline_internal::Welcome* welcome) {
    welcome->set_window_bytes(1);
  };
  EXPECT_EQ(OpenSession({}, server.MakeDialer()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SessionOpenTest, NewerServerIsToldApart) {
  FakeServer server;
  server.edit_welcome = [](const auto&, warpline_internal::Welcome* welcome) {
    welcome->set_version(9);
  };
  EXPECT_EQ(OpenSession({}, server.MakeDialer()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(SessionOpenTest, CloseFlushesSaysGoodbyeAndEndsTheSession) {
  FakeServer server;
  auto session = OpenSession({}, server.MakeDialer());
  ASSERT_TRUE(session.ok());
  for (int i = 0; i < 100; ++i) (*session)->commands().Send(cmd::Launch{});
  (*session)->Close(absl::Seconds(5));
  EXPECT_EQ(server.commands().size(), 100u);
  EXPECT_TRUE(server.close_seen());
  EXPECT_EQ((*session)->status().error(), CudaResult::kDeinitialized);
  EXPECT_EQ((*session)->commands().Send(cmd::Launch{}), 0u);
  EXPECT_EQ((*session)->commands().Call(WaitKind::kSynchronize, cmd::ContextSync{}),
            CudaResult::kDeinitialized);
  (*session)->Close(absl::Seconds(5));
}

TEST(SessionOpenTest, CloseOfAStuckServerKeepsItsDeadline) {
  FakeServer server;
  auto session = OpenSession({}, server.MakeDialer());
  ASSERT_TRUE(session.ok());
  server.HoldReceived(true);
  (*session)->commands().Send(cmd::Launch{});
  (*session)->Close(absl::Milliseconds(50));
}

}  // namespace
}  // namespace warpline::stub
