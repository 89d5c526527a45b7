#include "server/gpu_server/session/session_client.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "proto/frames.h"
#include "transport/channel.h"
#include "transport/channel_loop.h"

namespace warpline::server {
namespace {

using warpline_internal::MemoryGrant;

class SessionClientTest : public ::testing::Test {
 protected:
  static MemoryGrant Grant(uint64_t bytes, const std::string& message = "") {
    MemoryGrant grant;
    grant.set_bytes(bytes);
    grant.set_message(message);
    return grant;
  }
  // The next frame for the client, if it is a grant.
  std::optional<MemoryGrant> Pushed() {
    Frame frame;
    MemoryGrant grant;
    if (!port_->Pop(&frame) || frame.kind != kMemoryGrant) return std::nullopt;
    if (!grant.ParseFromString(frame.payload)) return std::nullopt;
    return grant;
  }

  const std::shared_ptr<SessionPort> port_ = std::make_shared<SessionPort>();
  absl::Status violation_;
  SessionClient client_{port_, 2, [this](const absl::Status& status) { violation_ = status; }};
};

TEST_F(SessionClientTest, SoManyRequestsAreUnderWay) {
  EXPECT_TRUE(client_.TryCount());
  EXPECT_TRUE(client_.TryCount());
  EXPECT_FALSE(client_.TryCount());
  EXPECT_FALSE(client_.TryCount());
  client_.Done();
  EXPECT_TRUE(client_.TryCount());
  // The session's own are let in, and count.
  client_.Count();
  client_.Done();
  EXPECT_FALSE(client_.TryCount());
}

// A channel that is told when to look again.
class WokenChannel : public Channel {
 public:
  const char* transport() const override { return "fake"; }
  void Wake() override { ++wakes; }
  void Admit() override {}
  void Close(const absl::Status&) override {}
  int wakes = 0;
};

TEST_F(SessionClientTest, WhoWaitsForRoomIsWokenOnce) {
  WokenChannel channel;
  {
    const LoopScope scope(&channel_loop);
    ASSERT_TRUE(port_->Attach(&channel));
  }
  const int before = channel.wakes;
  client_.Count();
  client_.Count();
  client_.Done();
  EXPECT_EQ(channel.wakes, before);  // Nobody waited.
  client_.Count();
  EXPECT_FALSE(client_.TryCount());
  client_.Done();
  EXPECT_EQ(channel.wakes, before + 1);
  EXPECT_TRUE(client_.TryCount());
  client_.Done();
  client_.Done();
  EXPECT_EQ(channel.wakes, before + 1);
  const LoopScope scope(&channel_loop);
  port_->Detach(&channel);
}

TEST_F(SessionClientTest, FirstGrantGoesToWhoeverWaitsForIt) {
  uint64_t first = 0;
  client_.HoldNextGrant([&](const MemoryGrant& grant) { first = grant.bytes(); });
  client_.Push(Grant(64));
  EXPECT_EQ(first, 64u);
  EXPECT_FALSE(Pushed().has_value());
  client_.Push(Grant(32));
  EXPECT_EQ(first, 64u);
  EXPECT_EQ(Pushed()->bytes(), 32u);
}

TEST_F(SessionClientTest, RefusedMemoryIsCountedWithItsReason) {
  client_.Push(Grant(2));
  EXPECT_EQ(client_.memory_refusal(), "");
  client_.Push(Grant(0, "the quota is used up"));
  client_.SayRefused("no room for an array");
  EXPECT_EQ(port_->traffic().memory_refused.value(), 2u);
  EXPECT_EQ(client_.memory_refusal(), "no room for an array");
}

TEST_F(SessionClientTest, RefusalsAreToldToClientsThatKnowThemAndRead) {
  client_.SayRefused("the first");
  Frame frame;
  EXPECT_FALSE(port_->Pop(&frame));
  client_.TellRefusals();
  for (int i = 0; i < 1000; ++i) client_.SayRefused("a further one");
  EXPECT_EQ(port_->traffic().memory_refused.value(), 1001u);
  int told = 0;
  warpline_internal::MemoryRefused refused;
  while (port_->Pop(&frame)) {
    ++told;
    ASSERT_EQ(frame.kind, static_cast<uint32_t>(kRefused));
    ASSERT_TRUE(refused.ParseFromString(frame.payload));
    EXPECT_EQ(refused.message(), "a further one");
  }
  EXPECT_EQ(told, 64);
}

TEST_F(SessionClientTest, AnswersOfALostSessionComeAfterItsFault) {
  port_->Fault({kFault, "", nullptr}, /*last=*/false);
  ASSERT_TRUE(client_.TryCount());
  ASSERT_TRUE(client_.TryCount());
  client_.Push(Grant(2));
  EXPECT_FALSE(Pushed().has_value());
  client_.AnswerRead(warpline_internal::ReadBackDone(), "bytes");
  Frame frame;
  ASSERT_TRUE(port_->Pop(&frame));
  EXPECT_EQ(frame.kind, static_cast<uint32_t>(kReadBackDone));
  EXPECT_TRUE(client_.TryCount());
}

TEST_F(SessionClientTest, ViolationsAreTold) {
  client_.Violated(absl::InvalidArgumentError("nothing is there"));
  EXPECT_TRUE(absl::IsInvalidArgument(violation_));
}

}  // namespace
}  // namespace warpline::server
