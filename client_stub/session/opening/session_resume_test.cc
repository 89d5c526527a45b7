// A session whose connection breaks or moves, against a server that cuts it where the test says.
#include <atomic>
#include <memory>
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
#include "proto/session.pb.h"

namespace warpline::stub {
namespace {

class SessionResumeTest : public testing::Test {
 protected:
  SessionResumeTest() {
    SetLogLevel(LogLevel::kError);
    server_.resumable = true;
  }
  ~SessionResumeTest() override { SetLogLevel(LogLevel::kInfo); }

  void Open(const SessionOptions& options = {}) {
    auto session = OpenSession(options, server_.MakeDialer());
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  CudaResult Sync() {
    return session_->commands().Call(WaitKind::kSynchronize, cmd::ContextSync{});
  }

  // Does some of everything, with results that reveal loss and repetition.
  void Work(int round) {
    const uint64_t before = session_->commands().last_seq();
    session_->commands().Send(cmd::CopyToDevice{}, "some data");
    std::string data(3000, '-');
    const uint64_t src = session_->terms().arena_base + static_cast<uint64_t>(round);
    ASSERT_EQ(session_->commands().CopyOut(1, data.data(), src, data.size(), true, nullptr),
              CudaResult::kSuccess);
    for (size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], DeviceByte(src + i));
    Grant grant;
    ASSERT_EQ(
        session_->memory().RequestMemory(session_->terms().arena_base, 2 << 20, 2 << 20, &grant),
        CudaResult::kSuccess);
    session_->memory().ReturnMemory(grant);
    ASSERT_EQ(Sync(), CudaResult::kSuccess);
    ASSERT_EQ(session_->commands().last_seq(), before + 3);
  }

  FakeServer server_;
  std::unique_ptr<SessionImpl> session_;
};

TEST_F(SessionResumeTest, CutsAtEveryFrameLoseAndRepeatNothing) {
  Open();
  int rounds = 0;
  for (int frames = 0; frames < 12; ++frames) {
    server_.CutAfter(frames);
    while (server_.resumes() < frames + 1) Work(rounds++);
  }
  // The fake server takes commands in order only, each once.
  const auto commands = server_.commands();
  ASSERT_EQ(commands.size(), session_->commands().last_seq());
  EXPECT_EQ(server_.memory_requests().size(), static_cast<size_t>(rounds));
  while (server_.memory_returns().size() < static_cast<size_t>(rounds)) std::this_thread::yield();
  EXPECT_EQ(session_->counters().resumes.load(), 12u);
}

// The first dial has not returned yet when its connection is lost.
TEST_F(SessionResumeTest, AConnectionThatIsLostAtOnceIsReplacedAfterItsDialIsOver) {
  std::atomic<bool> welcomed{false};
  server_.edit_welcome = [&](const auto&, auto*) { welcomed.store(true); };
  std::atomic<int> dials{0};
  std::atomic<int> dials_meanwhile{0};
  const Dialer dialer = [&, dial = server_.MakeDialer()](const DialTarget& target,
                                                         ChannelHandler* handler,
                                                         absl::Duration deadline) {
    const bool first = dials.fetch_add(1) == 0;
    auto channel = dial(target, handler, deadline);
    if (first) {
      while (!welcomed.load()) std::this_thread::yield();
      server_.Close(absl::UnavailableError("cut"));
      const absl::Time end = absl::Now() + absl::Milliseconds(100);
      while (dials.load() == 1 && absl::Now() < end) std::this_thread::yield();
      dials_meanwhile.store(dials.load() - 1);
    }
    return channel;
  };
  auto session = OpenSession({}, dialer);
  ASSERT_TRUE(session.ok()) << session.status();
  session_ = *std::move(session);
  EXPECT_EQ(dials_meanwhile.load(), 0);
  EXPECT_EQ(Sync(), CudaResult::kSuccess);
  EXPECT_EQ(server_.resumes(), 1);
}

TEST_F(SessionResumeTest, AServerThatEndsConnectionsAllTheTimeDoesNotFillTheLog) {
  LogCapture log;
  SetLogLevel(LogLevel::kInfo);
  Open();
  for (int cut = 0; cut < 60; ++cut) {
    server_.CutAfter(0);
    ASSERT_EQ(Sync(), CudaResult::kSuccess);
  }
  EXPECT_EQ(log.LinesWith("connection to the server lost").size(), 20u);
  EXPECT_EQ(log.LinesWith("session resumed after").size(), 20u);
}

TEST_F(SessionResumeTest, RepliesLostWithTheConnectionComeAgain) {
  Open();
  server_.on_command = [this](const FakeServer::Command& command, std::string*) {
    if (command.id != CommandId::kContextSync || command.seq != 1) return false;
    server_.CutAfter(0);
    return false;
  };
  EXPECT_EQ(Sync(), CudaResult::kSuccess);
  EXPECT_EQ(Sync(), CudaResult::kSuccess);
  EXPECT_EQ(server_.commands().size(), 2u);
}

TEST_F(SessionResumeTest, ServerThatIsNotBackYetIsAskedAgain) {
  Open();
  server_.refuse_resumes = 2;
  server_.CutAfter(0);
  EXPECT_EQ(Sync(), CudaResult::kSuccess);
  EXPECT_EQ(session_->counters().resumes.load(), 1u);
}

// The rest of a lost session is read over the connection of that moment, like all else before.
class LostSessionResumeTest : public SessionResumeTest {
 protected:
  LostSessionResumeTest() {
    server_.on_read_back = [this](const auto& request, auto* done) {
      if (reads_.fetch_add(1) < unanswered_) return false;
      for (uint64_t i = 0; i < request.bytes(); ++i) {
        done->mutable_data()->push_back(DeviceByte(request.va() + i));
      }
      return true;
    };
  }

  void Lose(CudaResult error) {
    warpline_internal::Fault fault;
    fault.set_error(static_cast<int>(error));
    fault.set_memory_kept(true);
    server_.Send(kFault, fault.SerializeAsString());
    while (session_->status().error() == CudaResult::kSuccess) std::this_thread::yield();
  }

  void ExpectReadable(uint64_t bytes) {
    std::string data(bytes, '-');
    const uint64_t va = session_->terms().arena_base;
    ASSERT_EQ(session_->memory().ReadBack(data.data(), va, bytes), CudaResult::kSuccess);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], DeviceByte(va + i)) << i;
  }

  std::atomic<int> reads_{0};
  int unanswered_ = 0;
};

TEST_F(LostSessionResumeTest, MemoryIsReadWhenTheConnectionIsLostBeforeTheRequest) {
  Open();
  Lose(CudaResult::kLaunchFailed);
  server_.Close(absl::UnavailableError("cut"));
  ExpectReadable(1000);
  EXPECT_EQ(session_->status().error(), CudaResult::kLaunchFailed);
  EXPECT_EQ(Sync(), CudaResult::kLaunchFailed);
}

TEST_F(LostSessionResumeTest, ARequestThatIsLostWithTheConnectionIsSentAgain) {
  Open();
  Lose(CudaResult::kLaunchFailed);
  server_.CutAfter(0);
  ExpectReadable(1000);
  EXPECT_EQ(reads_.load(), 1);
  EXPECT_EQ(server_.resumes(), 1);
}

TEST_F(LostSessionResumeTest, AnAnswerThatIsLostWithTheConnectionIsAskedForAgain) {
  Open();
  Lose(CudaResult::kLaunchFailed);
  unanswered_ = 1;
  std::thread cut([this] {
    while (reads_.load() == 0) std::this_thread::yield();
    server_.Close(absl::UnavailableError("cut"));
  });
  ExpectReadable(1000);
  cut.join();
  EXPECT_EQ(reads_.load(), 2);
}

// The session has failed, and says so with a reply instead of a fault.
TEST_F(LostSessionResumeTest, MemoryOfASessionWithAStickyErrorIsReadTooAfterTheConnectionIsLost) {
  Open();
  std::string replies;
  AppendNotice(ReplyId::kFailed, 1,
               notice::Failed{static_cast<uint32_t>(CommandId::kLaunch),
                              static_cast<int32_t>(CudaResult::kIllegalAddress)},
               "in words", &replies);
  server_.SendReplies(replies);
  while (session_->status().error() == CudaResult::kSuccess) std::this_thread::yield();
  server_.CutAfter(0);
  ExpectReadable(1000);
}

TEST_F(LostSessionResumeTest, AServerThatDoesNotComeBackEndsTheWait) {
  SessionOptions options;
  options.resume = absl::Milliseconds(1);
  Open(options);
  Lose(CudaResult::kLaunchFailed);
  server_.refuse_resumes = 1 << 20;
  server_.CutAfter(0);
  std::string data(1000, '-');
  EXPECT_EQ(session_->memory().ReadBack(data.data(), session_->terms().arena_base, 1000),
            CudaResult::kLaunchFailed);
}

TEST_F(SessionResumeTest, RefusedResumptionIsTheEnd) {
  Open();
  server_.resumable = false;
  server_.CutAfter(0);
  EXPECT_EQ(Sync(), CudaResult::kLaunchFailed);
  EXPECT_EQ(session_->status().error(), CudaResult::kLaunchFailed);
}

TEST_F(SessionResumeTest, GivesUpInTheEnd) {
  SessionOptions options;
  options.resume = absl::Milliseconds(100);
  Open(options);
  server_.refuse_resumes = 1000000;
  server_.CutAfter(0);
  EXPECT_EQ(Sync(), CudaResult::kLaunchFailed);
}

TEST_F(SessionResumeTest, WithoutPatienceALostConnectionIsTheEnd) {
  SessionOptions options;
  options.resume = absl::ZeroDuration();
  Open(options);
  server_.CutAfter(0);
  EXPECT_EQ(Sync(), CudaResult::kLaunchFailed);
  EXPECT_EQ(server_.resumes(), 0);
}

TEST_F(SessionResumeTest, MovesToAnotherAddressAndBackWhenThatFails) {
  std::atomic<int> elsewhere{0};
  const Dialer dialer = server_.MakeDialer();
  auto session =
      OpenSession({},
                  [&](const DialTarget& target, ChannelHandler* handler,
                      absl::Duration deadline) -> absl::StatusOr<std::unique_ptr<Channel>> {
                    if (target.endpoint == "nowhere") return absl::UnavailableError("nobody");
                    if (target.endpoint == "elsewhere") ++elsewhere;
                    return dialer(target, handler, deadline);
                  });
  ASSERT_TRUE(session.ok());
  session_ = *std::move(session);
  session_->MoveTo("elsewhere");
  while (session_->counters().transfers.load() < 1) Work(1);
  EXPECT_EQ(elsewhere.load(), 1);
  session_->MoveTo("nowhere");
  while (session_->counters().transfers.load() < 2) Work(2);
  // The address that worked before is tried first.
  EXPECT_EQ(elsewhere.load(), 2);
  Work(3);
}

TEST_F(SessionResumeTest, FollowsItsLeaseToAnotherServer) {
  warpline_internal::Redirect redirect;
  redirect.set_endpoint("gpu2:14000");
  server_.redirect = redirect.SerializeAsString();
  std::atomic<int> elsewhere{0};
  SessionOptions options;
  options.endpoint = "gpu1:14000";
  auto session = OpenSession(
      options, [&, dial = server_.MakeDialer()](const DialTarget& target, ChannelHandler* handler,
                                                absl::Duration deadline) {
        if (target.endpoint == "gpu2:14000") ++elsewhere;
        return dial(target, handler, deadline);
      });
  ASSERT_TRUE(session.ok());
  session_ = *std::move(session);
  server_.redirect_resumes.store(1);
  server_.CutAfter(2);
  while (server_.resumes() < 1) Work(1);
  EXPECT_EQ(elsewhere.load(), 1);
  // It stays there.
  server_.redirect_resumes.store(0);
  server_.CutAfter(2);
  while (server_.resumes() < 2) Work(2);
  EXPECT_EQ(elsewhere.load(), 2);
}

TEST_F(SessionResumeTest, ServersThatSendItToEachOtherAreTriedUntilItIsTimeToGiveUp) {
  warpline_internal::Redirect redirect;
  redirect.set_endpoint("gpu2:14000");
  server_.redirect = redirect.SerializeAsString();
  Open();
  server_.redirect_resumes.store(6);
  server_.CutAfter(0);
  while (server_.resumes() < 1) Work(1);
}

TEST_F(SessionResumeTest, AMalformedRedirectEndsIt) {
  server_.redirect = "\xff";
  Open();
  server_.redirect_resumes.store(1);
  server_.CutAfter(0);
  EXPECT_EQ(Sync(), CudaResult::kLaunchFailed);
}

TEST_F(SessionResumeTest, ARelayThatDoesNotAnswerCostsNoConnection) {
  SetLogLevel(LogLevel::kInfo);
  const LogCapture log;
  server_.relays = true;
  Open();
  warpline_internal::Relay relay;
  relay.set_address("tls://127.0.0.1:1");  // Nobody listens there.
  relay.set_secret("0123456789abcdef");
  server_.Send(kRelay, relay.SerializeAsString());
  while (log.LinesWith("no connections of its own").empty()) Work(1);
  Work(2);
  EXPECT_EQ(server_.resumes(), 0);
  EXPECT_EQ(session_->counters().transfers.load(), 0);
}

TEST_F(SessionResumeTest, ARelayIsDialledWithTheTransportsThatItsServerNames) {
  server_.relays = true;
  std::atomic<int> with_transports{0};
  auto session = OpenSession(
      {}, [&, dial = server_.MakeDialer()](const DialTarget& target, ChannelHandler* handler,
                                           absl::Duration deadline) {
        if (target.endpoint == "ucx://127.0.0.1/ff" && target.via == "rc,tcp") ++with_transports;
        return dial(target, handler, deadline);
      });
  ASSERT_TRUE(session.ok());
  session_ = *std::move(session);
  warpline_internal::Relay relay;
  relay.set_address("ucx://127.0.0.1/ff");
  relay.set_secret("0123456789abcdef");
  relay.set_ucx_transports("rc,tcp");
  server_.Send(kRelay, relay.SerializeAsString());
  while (session_->counters().transfers.load() < 1) Work(1);
  EXPECT_EQ(with_transports.load(), 1);
}

TEST_F(SessionResumeTest, ThreadsThatSendMeanwhileOnlyWait) {
  Open();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (!stop.load()) {
        session_->commands().Send(cmd::CopyToDevice{}, "data");
        ASSERT_EQ(Sync(), CudaResult::kSuccess);
      }
    });
  }
  for (int cut = 0; cut < 20; ++cut) {
    const int before = server_.resumes();
    server_.CutAfter(cut % 3);
    while (server_.resumes() == before) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server_.commands().size(), session_->commands().last_seq());
}

TEST_F(SessionResumeTest, ClosingWhileDisconnectedEndsByItsDeadline) {
  Open();
  server_.refuse_resumes = 1000000;
  server_.CutAfter(0);
  session_->commands().Send(cmd::CopyToDevice{}, "data");
  session_->Close(absl::Milliseconds(100));
  EXPECT_EQ(Sync(), CudaResult::kDeinitialized);
}

TEST_F(SessionResumeTest, ClosingWaitsForTheConnectionAndFlushes) {
  Open();
  server_.CutAfter(0);
  session_->commands().Send(cmd::CopyToDevice{}, "data");
  session_->Close(absl::Seconds(5));
  EXPECT_TRUE(server_.close_seen());
  EXPECT_EQ(server_.commands().size(), 1u);
}

TEST_F(SessionResumeTest, BadResumptionsEndTheSession) {
  for (const std::string& payload : {std::string("short"), std::string(16, '\xff'),
                                     std::string(8, '\0') + std::string(8, '\1')}) {
    FakeServer server;
    server.resumable = true;
    auto session = OpenSession({}, server.MakeDialer());
    ASSERT_TRUE(session.ok());
    server.Send(kResumed, payload);
    while ((*session)->status().error() == CudaResult::kSuccess) std::this_thread::yield();
  }
}

}  // namespace
}  // namespace warpline::stub
