// Failures: of commands, of the connection, and of a server that does not keep to the protocol.
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client_stub/session/opening/session_impl.h"
#include "client_stub/session/testing/fake_server.h"
#include "common/log/log.h"
#include "common/log/log_capture.h"
#include "gtest/gtest.h"
#include "proto/frames.h"

namespace warpline::stub {
namespace {

class SessionLossTest : public testing::Test {
 protected:
  void SetUp() override {
    auto session = OpenSession({}, server_.MakeDialer());
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  CudaResult Sync() {
    return session_->commands().Call(WaitKind::kSynchronize, cmd::ContextSync{});
  }

  // Makes the server give no answer to commands of this kind.
  void Ignore(CommandId id) {
    server_.on_command = [id](const FakeServer::Command& command, std::string*) {
      return command.id == id;
    };
  }

  void SendFailed(CommandId id, uint64_t seq, CudaResult result) {
    std::string replies;
    AppendNotice(ReplyId::kFailed, seq,
                 notice::Failed{static_cast<uint32_t>(id), static_cast<int32_t>(result)},
                 "in words", &replies);
    server_.SendReplies(replies);
  }

  void AwaitError(CudaResult error) {
    while (session_->status().error() == CudaResult::kSuccess) std::this_thread::yield();
    EXPECT_EQ(session_->status().error(), error);
  }

  // Runs `lose` while threads wait for a reply, a copy and memory; all must get `error`.
  template <typename Lose>
  void LoseWhileWaiting(CudaResult error, const Lose& lose) {
    server_.on_command = [](const FakeServer::Command&, std::string*) { return true; };
    server_.hold_memory = true;
    std::string buffer(1000, '-');
    Grant grant;
    std::vector<std::thread> threads;
    threads.emplace_back([&] { EXPECT_EQ(Sync(), error); });
    threads.emplace_back([&] {
      EXPECT_EQ(session_->commands().CopyOut(1, buffer.data(), session_->terms().arena_base, 1000,
                                             true, nullptr),
                error);
    });
    threads.emplace_back([&] {
      EXPECT_EQ(
          session_->memory().RequestMemory(session_->terms().arena_base, 2 << 20, 2 << 20, &grant),
          error);
    });
    server_.AwaitCommand(2);
    while (server_.memory_requests().empty()) std::this_thread::yield();
    lose();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(session_->status().error(), error);
    EXPECT_EQ(session_->commands().Send(cmd::Launch{}), 0u);
    EXPECT_EQ(Sync(), error);
    EXPECT_EQ(session_->commands().CopyOut(1, buffer.data(), 0, 1, false, nullptr), error);
    EXPECT_EQ(session_->memory().RequestMemory(0, 2 << 20, 2 << 20, &grant), error);
    EXPECT_EQ(buffer, std::string(1000, '-'));
  }

  FakeServer server_;
  std::unique_ptr<SessionImpl> session_;
};

TEST_F(SessionLossTest, AServerThatReportsFailuresAllTheTimeDoesNotFillTheLog) {
  LogCapture log;
  const uint64_t seq = session_->commands().Send(cmd::EventDestroy{1});
  server_.AwaitCommand(seq);
  for (int i = 0; i < 2000; ++i) {
    SendFailed(CommandId::kEventDestroy, seq, CudaResult::kInvalidHandle);
  }
  // The failure comes back from the next call that waits.
  EXPECT_EQ(Sync(), CudaResult::kInvalidHandle);
  EXPECT_EQ(log.LinesWith("EventDestroy number 1 failed").size(), 20u) << log.Text();
  session_->Close(absl::Seconds(10));
  EXPECT_EQ(log.LinesWith("log lines left out session failed_commands=1980").size(), 1u);
}

TEST_F(SessionLossTest, LostConnectionEndsEveryWait) {
  LoseWhileWaiting(CudaResult::kLaunchFailed,
                   [this] { server_.Close(absl::UnavailableError("gone")); });
}

TEST_F(SessionLossTest, FaultEndsEveryWaitWithItsError) {
  LoseWhileWaiting(CudaResult::kDeviceUnavailable, [this] {
    warpline_internal::Fault fault;
    fault.set_error(static_cast<int>(CudaResult::kDeviceUnavailable));
    fault.set_message("the worker died");
    server_.Send(kFault, fault.SerializeAsString());
  });
}

TEST_F(SessionLossTest, StickyFailureEndsEveryWait) {
  LoseWhileWaiting(CudaResult::kIllegalAddress,
                   [this] { SendFailed(CommandId::kLaunch, 1, CudaResult::kIllegalAddress); });
}

TEST_F(SessionLossTest, ProtocolViolationEndsEveryWait) {
  LoseWhileWaiting(CudaResult::kLaunchFailed, [this] { server_.Send(kReceived, "short"); });
}

TEST_F(SessionLossTest, StickyReplyIsEveryonesError) {
  server_.on_command = [](const FakeServer::Command& command, std::string* replies) {
    AppendReply(command.seq, static_cast<int>(CudaResult::kLaunchTimeout), {}, {}, replies);
    return true;
  };
  EXPECT_EQ(Sync(), CudaResult::kLaunchTimeout);
  EXPECT_EQ(session_->status().error(), CudaResult::kLaunchTimeout);
}

TEST_F(SessionLossTest, TheFirstStickyErrorStays) {
  SendFailed(CommandId::kLaunch, 1, CudaResult::kIllegalAddress);
  AwaitError(CudaResult::kIllegalAddress);
  SendFailed(CommandId::kLaunch, 2, CudaResult::kAssert);
  server_.Close(absl::UnavailableError("gone"));
  EXPECT_EQ(Sync(), CudaResult::kIllegalAddress);
}

TEST_F(SessionLossTest, FailedCommandSurfacesOnceAtTheNextSynchronize) {
  server_.on_command = [](const FakeServer::Command& command, std::string* replies) {
    if (command.id != CommandId::kLaunch) return false;
    AppendNotice(ReplyId::kFailed, command.seq,
                 notice::Failed{static_cast<uint32_t>(command.id),
                                static_cast<int32_t>(CudaResult::kLaunchOutOfResources)},
                 "too many registers", replies);
    return true;
  };
  session_->commands().Send(cmd::Launch{});
  // A round trip that asks for something else does not return it.
  EXPECT_EQ(session_->commands().Call(WaitKind::kRoundTrip, cmd::GlobalFind{}, "v"),
            CudaResult::kSuccess);
  EXPECT_EQ(Sync(), CudaResult::kLaunchOutOfResources);
  EXPECT_EQ(Sync(), CudaResult::kSuccess);
  session_->commands().Send(cmd::Launch{});
  char byte;
  EXPECT_EQ(session_->commands().CopyOut(0, &byte, session_->terms().arena_base, 1, true, nullptr),
            CudaResult::kLaunchOutOfResources);
  EXPECT_EQ(session_->status().error(), CudaResult::kSuccess);
}

TEST_F(SessionLossTest, FailedLoadIsLeftToWhoAsksForTheModule) {
  session_->commands().Send(cmd::ModuleLoad{});
  SendFailed(CommandId::kModuleLoad, 1, CudaResult::kNoBinaryForGpu);
  EXPECT_EQ(Sync(), CudaResult::kSuccess);
}

TEST_F(SessionLossTest, FailedCopyThatNobodyWaitsForSurfacesLater) {
  server_.on_command = [](const FakeServer::Command& command, std::string* replies) {
    if (command.id != CommandId::kCopyFromDevice) return false;
    AppendReply(command.seq, static_cast<int>(CudaResult::kInvalidValue), {}, {}, replies);
    return true;
  };
  char byte;
  EXPECT_EQ(session_->commands().CopyOut(0, &byte, session_->terms().arena_base, 1, false, nullptr),
            CudaResult::kSuccess);
  EXPECT_EQ(Sync(), CudaResult::kInvalidValue);
}

TEST_F(SessionLossTest, SenderThatWaitsForTheWindowIsReleased) {
  server_.HoldReceived(true);
  server_.HoldRetired(true);
  std::thread sender([this] {
    while (session_->commands().Send(cmd::CopyToDevice{}, std::string(kMaxTail, 't')) != 0) {
    }
  });
  while (session_->counters().window_waits == 0) std::this_thread::yield();
  server_.Close(absl::UnavailableError("gone"));
  sender.join();
}

TEST_F(SessionLossTest, WaitsEndWithTheLoss) {
  Ignore(CommandId::kContextSync);
  std::thread waiter([this] { Sync(); });
  server_.AwaitCommand(1);
  server_.Close(absl::UnavailableError("gone"));
  waiter.join();
}

TEST_F(SessionLossTest, DataForNobodyIsAProtocolViolation) {
  std::string replies;
  AppendNotice(ReplyId::kCopyData, 5, notice::CopyData{0}, "data", &replies);
  server_.SendReplies(replies);
  AwaitError(CudaResult::kLaunchFailed);
}

TEST_F(SessionLossTest, RetirementOfWhatWasNotSentIsAProtocolViolation) {
  std::string replies;
  AppendNotice(ReplyId::kRetired, 5, notice::Retired{.stream = 0, .all_seq = 5}, {}, &replies);
  server_.SendReplies(replies);
  AwaitError(CudaResult::kLaunchFailed);
}

TEST_F(SessionLossTest, RefusalThatIsNoneIsAProtocolViolation) {
  server_.Send(kRefused, "\xff\xff");
  AwaitError(CudaResult::kLaunchFailed);
}

TEST_F(SessionLossTest, GrantThatWasNotAskedForIsAProtocolViolation) {
  warpline_internal::MemoryGrant grant;
  grant.set_id(12);
  grant.set_bytes(2 << 20);
  server_.Send(kMemoryGrant, grant.SerializeAsString());
  AwaitError(CudaResult::kLaunchFailed);
}

// Whatever arrives, the session ends or goes on; it never crashes or writes where it should not.
TEST(SessionGarbageTest, SurvivesDamagedFrames) {
  SetLogLevel(LogLevel::kError);
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    FakeServer server;
    server.on_command = [](const FakeServer::Command&, std::string*) { return true; };
    auto session = OpenSession({}, server.MakeDialer());
    ASSERT_TRUE(session.ok());
    std::vector<char> buffer(64);
    ASSERT_EQ((*session)->commands().CopyOut(1, buffer.data(), (*session)->terms().arena_base, 64,
                                             false, nullptr),
              CudaResult::kSuccess);
    std::string replies;
    AppendNotice(ReplyId::kCopyData, 1, notice::CopyData{16}, std::string(48, 'x'), &replies);
    AppendReply(1, 0, {}, {}, &replies);
    AppendNotice(ReplyId::kRetired, 1, notice::Retired{.stream = 1, .all_seq = 1}, {}, &replies);
    for (int i = 0; i < 3; ++i) replies[random() % replies.size()] = static_cast<char>(random());
    if (random() % 4 == 0) replies.resize(random() % replies.size());
    const uint32_t kinds[] = {kReplies,     kReplies, kReplies, kReceived, kWelcome,
                              kMemoryGrant, kFault,   kRefused, 99};
    server.Send(kinds[random() % 9], replies);
    server.Close(absl::UnavailableError("gone"));
    while ((*session)->status().error() == CudaResult::kSuccess) std::this_thread::yield();
  }
  SetLogLevel(LogLevel::kInfo);
}

}  // namespace
}  // namespace warpline::stub
