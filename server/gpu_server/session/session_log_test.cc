// What clients can write into the server's log by opening sessions, losing them and sending
// nonsense: a few lines, however often they do it.
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "common/log/keyed_log_budget.h"
#include "common/log/log.h"
#include "common/log/log_capture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/gpu_server/session/server_log.h"
#include "server/gpu_server/session/session_host.h"
#include "server/gpu_server/testing/session_fixture.h"

namespace warpline::server {
namespace {

using testing::HasSubstr;
using warpline_internal::Hello;

constexpr LogKind kFew[kServerLineCount] = {
    {"sessions", 3, absl::Seconds(30)},        {"refused", 2, absl::Minutes(1)},
    {"protocol_errors", 2, absl::Minutes(1)},  {"connections", 4, absl::Minutes(1)},
    {"workers_lost", 2, absl::Minutes(1)},     {"take_overs", 2, absl::Minutes(1)},
    {"workers_replaced", 2, absl::Minutes(1)}, {"reclaimed", 2, absl::Minutes(1)},
    {"readers", 2, absl::Minutes(1)},
};

class SessionLogTest : public SessionFixture {
 protected:
  SessionLogTest() {
    SetLogLevel(LogLevel::kInfo);
    options_.log.each = kFew;
    options_.log.clock = [this] { return now_ns_.load(); };
  }
  ~SessionLogTest() override { SetLogLevel(LogLevel::kError); }

  void Pass(absl::Duration time) { now_ns_ += absl::ToInt64Nanoseconds(time); }

  void OpenAndClose() {
    auto client = DialAndOpen();
    client->Send(kClose, "");
    EXPECT_TRUE(client->AwaitClosed().ok());
    client.reset();
    EXPECT_TRUE(host_->WaitUntilIdle(absl::Seconds(60)));
  }

  size_t Lines(const std::string& part) { return log_.LinesWith(part).size(); }

  std::atomic<int64_t> now_ns_{1'000'000'000'000};
  LogCapture log_;
};

TEST_F(SessionLogTest, SessionsInALoopAreSaidAFewTimesAndThenCounted) {
  StartServer();
  for (int i = 0; i < 10; ++i) OpenAndClose();
  EXPECT_EQ(Lines(" opened session="), 3u) << log_.Text();
  EXPECT_EQ(Lines(" closed session="), 3u) << log_.Text();
  Pass(absl::Seconds(30));
  OpenAndClose();
  // Seven that opened and closed.
  EXPECT_EQ(Lines(" opened session=11 "), 1u);
  EXPECT_THAT(log_.LinesWith(" opened session=11 ").at(0), HasSubstr("(and 14 more in 30 s)"));
  EXPECT_EQ(Lines(" closed session=11 "), 1u);
}

TEST_F(SessionLogTest, TheEndOfASessionIsSaidWhereItsBeginningWas) {
  StartServer();
  auto first = DialAndOpen();
  auto second = DialAndOpen();
  for (int i = 0; i < 5; ++i) {
    auto client = DialAndOpen();
    client->Send(kClose, "");
    EXPECT_TRUE(client->AwaitClosed().ok());
  }
  first.reset();
  second.reset();
  EXPECT_TRUE(host_->WaitUntilIdle(absl::Seconds(60)));
  EXPECT_EQ(Lines(" closed session=1 "), 1u) << log_.Text();
  EXPECT_EQ(Lines(" closed session=2 "), 1u) << log_.Text();
}

TEST_F(SessionLogTest, RefusedHellosAreSaidAFewTimes) {
  StartServer();
  Hello hello = TestClient::GoodHello();
  hello.set_device("99");
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Dial()->Open(hello).has_value());
  EXPECT_TRUE(host_->WaitUntilIdle(absl::Seconds(60)));
  EXPECT_EQ(Lines("reason=\"refused"), 2u) << log_.Text();
  OpenAndClose();
  EXPECT_EQ(Lines(" opened session=101 "), 1u) << "these are lines of another kind";
}

TEST_F(SessionLogTest, StrangersErrorsAreSaidAFewTimes) {
  StartServer();
  for (int i = 0; i < 100; ++i) {
    auto client = Dial();
    client->Send(kCommands, "no hello");
    EXPECT_FALSE(client->AwaitClosed().ok());
  }
  EXPECT_EQ(Lines("protocol error peer="), 2u) << log_.Text();
  EXPECT_EQ(host_->counters().protocol_errors.value(), 100u);
}

TEST_F(SessionLogTest, ASessionThatComesBackAllTheTimeIsSaidAFewTimes) {
  options_.session.resume_timeout = absl::Seconds(60);
  StartServer();
  Hello hello = TestClient::GoodHello();
  hello.set_features(kFeatureResume);
  auto client = Dial();
  const auto welcome = client->Open(hello);
  ASSERT_TRUE(welcome.has_value());
  for (uint64_t attempt = 1; attempt <= 50; ++attempt) {
    auto next = Dial();
    ASSERT_TRUE(next->Resume(*welcome, attempt, 0).has_value());
    client = std::move(next);
  }
  client->Send(kClose, "");
  EXPECT_TRUE(client->AwaitClosed().ok());
  client.reset();
  EXPECT_TRUE(host_->WaitUntilIdle(absl::Seconds(60)));
  EXPECT_EQ(host_->counters().transfers.value() + host_->counters().resumes.value(), 50u);
  EXPECT_EQ(Lines(" moved session=") + Lines(" resumed session=") + Lines(" detached session="), 4u)
      << log_.Text();
  EXPECT_EQ(Lines(" closed session=1 "), 1u);
}

TEST_F(SessionLogTest, WhatIsPendingWhenTheServerEndsIsSaidOnce) {
  StartServer();
  for (int i = 0; i < 10; ++i) OpenAndClose();
  server_->Shutdown();
  server_.reset();
  host_.reset();
  memory_.clear();
  EXPECT_EQ(Lines("log lines left out sessions=14"), 1u) << log_.Text();
}

TEST(LogKeyTest, APeersNextConnectionIsThePeers) {
  EXPECT_EQ(LogKey("", "ipv4:10.1.2.3:4444"), LogKey("", "ipv4:10.1.2.3:5555"));
  EXPECT_NE(LogKey("", "ipv4:10.1.2.3:4444"), LogKey("", "ipv4:10.1.2.4:4444"));
  EXPECT_EQ(LogKey("", "ipv4:10.1.2.3:4444 cn=alice"), LogKey("", "ipv4:10.9.9.9:1 cn=alice"));
  EXPECT_EQ(LogKey("ann", "ipv4:10.1.2.3:4444"), LogKey("ann", "ipv4:10.9.9.9:1"));
  EXPECT_NE(LogKey("ann", "ipv4:10.1.2.3:4444"), LogKey("bob", "ipv4:10.1.2.3:4444"));
}

}  // namespace
}  // namespace warpline::server
