#include "server/gpu_server/session/connection/session_link.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace warpline::server {
namespace {

void Send(SessionLink* link, std::string payload) {
  Frame frame = {kReplies, std::move(payload)};
  link->OnSend(&frame);
}

std::vector<std::string> Again(SessionLink* link) {
  std::vector<std::string> payloads;
  for (Frame frame; link->NextAgain(&frame);) payloads.emplace_back(frame.bytes());
  return payloads;
}

TEST(SessionLinkTest, ResendsWhatTheClientLacksInOrder) {
  SessionLink link;
  link.KeepFrames();
  for (int i = 1; i <= 5; ++i) Send(&link, absl::StrCat("frame ", i));
  ASSERT_TRUE(link.OnAck(1).ok());
  for (const uint64_t received : {2u, 3u, 3u, 5u}) {
    ASSERT_TRUE(link.Rewind(received).ok());
    std::vector<std::string> expected;
    for (uint64_t i = received + 1; i <= 5; ++i) expected.push_back(absl::StrCat("frame ", i));
    EXPECT_EQ(Again(&link), expected);
  }
  EXPECT_EQ(link.kept_bytes(), 0u);
}

TEST(SessionLinkTest, NothingNewLeavesBeforeWhatIsSentAgain) {
  SessionLink link;
  link.KeepFrames();
  Send(&link, "one");
  Send(&link, "two");
  ASSERT_TRUE(link.Rewind(0).ok());
  EXPECT_FALSE(link.HasRoom());
  EXPECT_EQ(Again(&link), (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(link.HasRoom());
}

TEST(SessionLinkTest, LargePayloadsAreSharedAndSmallOnesCopied) {
  SessionLink link;
  link.KeepFrames();
  const std::string large(100000, 'x');
  Frame frame = {kReplies, large};
  const void* const data = frame.payload.data();
  link.OnSend(&frame);
  ASSERT_NE(frame.shared, nullptr);
  EXPECT_EQ(frame.shared->data(), data);
  frame = {kReplies, "small"};
  link.OnSend(&frame);
  EXPECT_EQ(frame.shared, nullptr);
  EXPECT_EQ(frame.payload, "small");
}

TEST(SessionLinkTest, AcknowledgementsFromTheFutureAreRefused) {
  SessionLink link;
  link.KeepFrames();
  Send(&link, "one");
  Send(&link, "two");
  EXPECT_FALSE(link.OnAck(3).ok());
  EXPECT_FALSE(link.OnShortAck(3).ok());
  EXPECT_FALSE(link.Rewind(3).ok());
  EXPECT_TRUE(link.OnShortAck(2).ok());
  EXPECT_FALSE(link.OnShortAck(1).ok());
  EXPECT_FALSE(link.Rewind(1).ok());
  EXPECT_TRUE(link.Rewind(2).ok());
}

TEST(SessionLinkTest, WhatIsSentAgainCannotBeAcknowledgedBefore) {
  SessionLink link;
  link.KeepFrames();
  Send(&link, "one");
  ASSERT_TRUE(link.Rewind(0).ok());
  EXPECT_FALSE(link.OnAck(1).ok());
  Frame frame;
  ASSERT_TRUE(link.NextAgain(&frame));
  EXPECT_TRUE(link.OnAck(1).ok());
}

TEST(SessionLinkTest, WhatIsKeptIsBounded) {
  SessionLink link;
  link.KeepFrames();
  const std::string payload(1u << 20, 'x');
  int frames = 0;
  for (; link.HasRoom(); ++frames) Send(&link, payload);
  EXPECT_EQ(frames, 32);
  ASSERT_TRUE(link.OnAck(1).ok());
  EXPECT_TRUE(link.HasRoom());
  SessionLink many;
  many.KeepFrames();
  for (size_t i = 0; i < SessionLink::kMaxKeptFrames; ++i) Send(&many, "");
  EXPECT_FALSE(many.HasRoom());
}

TEST(SessionLinkTest, AClientThatCannotResumeCostsNothing) {
  SessionLink link;
  for (int i = 0; i < 100; ++i) Send(&link, std::string(1u << 20, 'x'));
  EXPECT_EQ(link.kept_bytes(), 0u);
  EXPECT_TRUE(link.HasRoom());
  EXPECT_TRUE(link.OnShortAck(0).ok());
  EXPECT_FALSE(link.OnShortAck(100).ok());
  EXPECT_FALSE(link.OnAck(100).ok());
}

// A client may acknowledge before the control side has said that frames are kept, against the
// protocol.
TEST(SessionLinkTest, AnAcknowledgementMayComeWhileFramesBeginToBeKept) {
  SessionLink link;
  std::thread control([&] { link.KeepFrames(); });
  (void)link.OnAck(0);
  control.join();
  EXPECT_TRUE(link.OnAck(0).ok());
}

}  // namespace
}  // namespace warpline::server
