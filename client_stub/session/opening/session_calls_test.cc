// A session at work: commands, round trips, copies, the board, memory.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "client_stub/session/opening/session_impl.h"
#include "client_stub/session/testing/fake_server.h"
#include "gtest/gtest.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

class SessionCallsTest : public testing::Test {
 protected:
  void SetUp() override { Open(); }

  void Open() {
    session_.reset();
    auto session = OpenSession({}, server_.MakeDialer());
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  CudaResult Sync() {
    return session_->commands().Call(WaitKind::kSynchronize, cmd::ContextSync{});
  }

  FakeServer server_;
  std::unique_ptr<SessionImpl> session_;
};

TEST_F(SessionCallsTest, CommandsArriveInOrderWithTheirTails) {
  EXPECT_EQ(session_->commands().Send(cmd::Launch{.stream = 3}, "params"), 1u);
  EXPECT_EQ(session_->commands().Send(cmd::EventRecord{.event = 1, .stream = 3}), 2u);
  EXPECT_EQ(session_->commands().last_seq(), 2u);
  EXPECT_EQ(Sync(), CudaResult::kSuccess);
  const auto commands = server_.commands();
  ASSERT_EQ(commands.size(), 3u);
  EXPECT_EQ(commands[0].id, CommandId::kLaunch);
  EXPECT_EQ(commands[0].body.substr(sizeof(cmd::Launch)), "params");
  EXPECT_EQ(commands[1].id, CommandId::kEventRecord);
  EXPECT_EQ(commands[2].id, CommandId::kContextSync);
}

TEST_F(SessionCallsTest, AnOlderServerIsNotSentWhatItDoesNotKnow) {
  server_.edit_welcome = [](const warpline_internal::Hello& hello,
                            warpline_internal::Welcome* welcome) {
    EXPECT_LE(hello.min_version(), 1u);
    welcome->set_version(1);
  };
  Open();
  const uint64_t before = session_->commands().Send(cmd::Launch{});
  EXPECT_EQ(session_->commands().Send(cmd::ImageFind{}), 0u);
  EXPECT_EQ(session_->status().error(), CudaResult::kSuccess);
  EXPECT_EQ(Sync(), CudaResult::kSuccess);
  EXPECT_EQ(session_->commands().last_seq(), before + 1);
}

TEST_F(SessionCallsTest, WhatWasSentLeavesWithoutFurtherCalls) {
  const uint64_t seq = session_->commands().Send(cmd::Launch{});
  server_.AwaitCommand(seq);
}

TEST_F(SessionCallsTest, RoundTripBringsFields) {
  std::string fields;
  EXPECT_EQ(session_->commands().Call(WaitKind::kRoundTrip, cmd::GlobalFind{}, "name", &fields),
            CudaResult::kSuccess);
  EXPECT_EQ(fields, "fields");
}

TEST_F(SessionCallsTest, FailedRoundTripReturnsItsErrorAndNothingElseFails) {
  server_.on_command = [](const FakeServer::Command& command, std::string* replies) {
    if (command.id != CommandId::kKernelFind) return false;
    AppendReply(command.seq, static_cast<int>(CudaResult::kNotFound), {}, {}, replies);
    return true;
  };
  EXPECT_EQ(session_->commands().Call(WaitKind::kRoundTrip, cmd::KernelFind{}, "k"),
            CudaResult::kNotFound);
  EXPECT_EQ(session_->status().error(), CudaResult::kSuccess);
  EXPECT_EQ(Sync(), CudaResult::kSuccess);
}

TEST_F(SessionCallsTest, ManyThreadsGetTheirOwnReplies) {
  server_.on_command = [](const FakeServer::Command& command, std::string* replies) {
    if (command.id != CommandId::kGlobalFind) return false;
    AppendReply(command.seq, 0, command.body.substr(0, 8), {}, replies);
    return true;
  };
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (uint64_t i = 0; i < 200; ++i) {
        const uint64_t mark = t * 1000 + i;
        std::string fields;
        session_->commands().Send(cmd::Launch{});
        ASSERT_EQ(session_->commands().Call(WaitKind::kRoundTrip, cmd::GlobalFind{.module = mark},
                                            "v", &fields),
                  CudaResult::kSuccess);
        ASSERT_EQ(std::memcmp(fields.data(), &mark, sizeof(mark)), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(session_->counters().round_trips, 800u);
  EXPECT_EQ(session_->counters().launches, 800u);
}

TEST_F(SessionCallsTest, CopyOutBringsTheData) {
  std::vector<char> data(1000001);
  uint64_t seq = 0;
  const uint64_t src = session_->terms().arena_base + 12345;
  ASSERT_EQ(session_->commands().CopyOut(1, data.data(), src, data.size(), true, &seq),
            CudaResult::kSuccess);
  for (size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], DeviceByte(src + i)) << i;
  EXPECT_EQ(seq, 1u);
  EXPECT_EQ(session_->commands().CopyOut(1, nullptr, src, 0, true, &seq), CudaResult::kSuccess);
  EXPECT_EQ(session_->commands().last_seq(), 1u);
}

TEST_F(SessionCallsTest, CopyOutWithoutWaitingIsThereOnceItRetired) {
  std::vector<char> data(300000);
  uint64_t seq = 0;
  const uint64_t src = session_->terms().arena_base;
  ASSERT_EQ(session_->commands().CopyOut(4, data.data(), src, data.size(), false, &seq),
            CudaResult::kSuccess);
  while (!session_->commands().Retired(4, seq)) std::this_thread::yield();
  for (size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], DeviceByte(src + i)) << i;
}

TEST_F(SessionCallsTest, BoardFollowsTheWorker) {
  server_.HoldRetired(true);
  const uint64_t first = session_->commands().Send(cmd::Launch{.stream = 1});
  const uint64_t second = session_->commands().Send(cmd::Launch{.stream = 2});
  EXPECT_EQ(Sync(), CudaResult::kSuccess);
  EXPECT_FALSE(session_->commands().Retired(1, first));
  std::string replies;
  AppendNotice(ReplyId::kRetired, first, notice::Retired{.stream = 1, .all_seq = 0}, {}, &replies);
  server_.SendReplies(replies);
  while (!session_->commands().Retired(1, first)) std::this_thread::yield();
  EXPECT_FALSE(session_->commands().Retired(2, second));
  EXPECT_FALSE(session_->commands().Retired(1, second));
  server_.HoldRetired(false);
  while (!session_->commands().Retired(2, second)) std::this_thread::yield();
  while (!session_->commands().Retired(kNoStream, session_->commands().last_seq())) {
    std::this_thread::yield();
  }
}

TEST_F(SessionCallsTest, FullWindowMakesTheSenderWaitUntilCommandsRetire) {
  server_.edit_welcome = [](const auto&, auto* welcome) { welcome->set_window_commands(20); };
  Open();
  server_.HoldRetired(true);
  for (int i = 0; i < 20; ++i) session_->commands().Send(cmd::Launch{});
  EXPECT_EQ(session_->counters().window_waits, 0u);
  std::thread sender([this] { EXPECT_EQ(session_->commands().Send(cmd::Launch{}), 21u); });
  server_.AwaitCommand(20);
  while (session_->counters().window_waits == 0) std::this_thread::yield();
  EXPECT_EQ(session_->commands().last_seq(), 20u);
  server_.HoldRetired(false);
  sender.join();
  EXPECT_EQ(session_->counters().window_waits, 1u);
}

TEST_F(SessionCallsTest, FullWindowMakesTheSenderWaitUntilBytesAreReceived) {
  server_.edit_welcome = [](const auto&, auto* welcome) { welcome->set_window_bytes(1u << 20); };
  Open();
  server_.HoldReceived(true);
  const std::string tail(kMaxTail, 't');
  session_->commands().Send(cmd::CopyToDevice{}, tail);
  std::thread sender([&] { EXPECT_EQ(session_->commands().Send(cmd::CopyToDevice{}, tail), 2u); });
  server_.AwaitCommand(1);
  while (session_->counters().window_waits == 0) std::this_thread::yield();
  EXPECT_EQ(server_.commands().size(), 1u);
  server_.HoldReceived(false);
  sender.join();
}

TEST_F(SessionCallsTest, TailThatWasNotSplitIsNotSent) {
  EXPECT_EQ(session_->commands().Send(cmd::CopyToDevice{}, std::string(kMaxTail + 1, 't')), 0u);
  EXPECT_EQ(session_->status().error(), CudaResult::kSuccess);
  EXPECT_EQ(session_->commands().last_seq(), 0u);
}

TEST_F(SessionCallsTest, FreedTokensReachTheCallback) {
  std::atomic<uint64_t> freed{0};
  session_->notices().SetFreedCallback(0, [&](uint64_t token) { freed.store(token); });
  session_->commands().Send(cmd::FreeFence{.token = 77});
  while (freed.load() != 77) std::this_thread::yield();
  session_->notices().SetFreedCallback(0, nullptr);
}

TEST_F(SessionCallsTest, MemoryIsGrantedWithinTheQuota) {
  const uint64_t va = session_->terms().arena_base + (1ull << 30);
  Grant grant;
  ASSERT_EQ(session_->memory().RequestMemory(va, 2 << 20, 64 << 20, &grant), CudaResult::kSuccess);
  EXPECT_EQ(grant.va, va);
  EXPECT_EQ(grant.bytes, 64u << 20);
  EXPECT_EQ(session_->memory().RequestMemory(va, FakeServer::kQuota, FakeServer::kQuota, &grant),
            CudaResult::kOutOfMemory);
  session_->memory().ReturnMemory({va, 64 << 20});
  EXPECT_EQ(session_->counters().memory_round_trips, 2u);
  EXPECT_EQ(Sync(), CudaResult::kSuccess);
  ASSERT_EQ(server_.memory_returns().size(), 1u);
  EXPECT_EQ(server_.memory_returns()[0].va(), va);
}

TEST_F(SessionCallsTest, ReasonOfRefusedMemoryIsLoggedOnceAndCounted) {
  const uint64_t va = session_->terms().arena_base + (1ull << 40);
  Grant grant;
  testing::internal::CaptureStderr();
  for (int i = 1; i <= 20; ++i) {
    const uint64_t bytes = FakeServer::kQuota + static_cast<uint64_t>(i) * kChunkGranularity;
    EXPECT_EQ(session_->memory().RequestMemory(va, bytes, bytes, &grant), CudaResult::kOutOfMemory);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_NE(log.find("quota of 8589934592 bytes: "), std::string::npos) << log;
  EXPECT_EQ(session_->counters().memory_refusals, 20u);
  EXPECT_NE(session_->counters().ToText().find("warpline stat: memory refused: 20\n"),
            std::string::npos);
}

TEST_F(SessionCallsTest, WhatTheServerSaysOfARefusalIsLoggedOnceForEachReason) {
  EXPECT_TRUE(session_->terms().TellsRefusals());
  testing::internal::CaptureStderr();
  for (int i = 1; i <= 20; ++i) {
    warpline_internal::MemoryRefused refused;
    refused.set_message(absl::StrCat("the quota has no room for ", i, " bytes\n\x1b[2J of graphs"));
    server_.Send(kRefused, refused.SerializeAsString());
  }
  // Frames are handled in order.
  EXPECT_EQ(Sync(), CudaResult::kSuccess);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_NE(log.find("memory was refused: the quota has no room for 1 bytes"), std::string::npos)
      << log;
  EXPECT_EQ(log.find('\x1b'), std::string::npos) << log;
  EXPECT_EQ(session_->counters().memory_refusals, 20u);
}

TEST_F(SessionCallsTest, CountersSayWhatWasWaitedFor) {
  session_->commands().Call(WaitKind::kRoundTrip, cmd::KernelFind{}, "k");
  session_->commands().Call(WaitKind::kFree, cmd::ContextSync{});
  Sync();
  char byte;
  session_->commands().CopyOut(0, &byte, session_->terms().arena_base, 1, true, nullptr);
  session_->commands().Send(cmd::Launch{});
  Sync();
  const std::string text = session_->counters().ToText();
  for (const char* line :
       {"warpline stat: round trips: 1 (KernelFind 1)\n", "warpline stat: opening: 1\n",
        "warpline stat: launches: 1\n", "warpline stat: memory requests: 0 (waited)\n",
        "warpline stat: synchronizes: 2\n", "warpline stat: copies out: 1\n",
        "warpline stat: commands: 6\n", "warpline stat: window waits: 0\n",
        "warpline stat: free waits: 1\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_GT(session_->counters().bytes_sent, 0u);
  EXPECT_GT(session_->counters().frames_received, 0u);
}

}  // namespace
}  // namespace warpline::stub
