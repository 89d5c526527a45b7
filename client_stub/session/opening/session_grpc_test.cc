// Session::Open and the session's life over gRPC.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client_stub/session/session.h"
#include "client_stub/session/testing/fake_acceptor.h"
#include "client_stub/session/testing/fake_server.h"
#include "gtest/gtest.h"
#include "proto/refusal.h"
#include "transport/grpc/grpc_server.h"

namespace warpline::stub {
namespace {

class SessionGrpcTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(grpc_.Start({"localhost:0"}, &acceptor_).ok());
    options_.endpoint = absl::StrCat("localhost:", grpc_.port());
  }
  void TearDown() override {
    session_.reset();
    grpc_.Shutdown(absl::ZeroDuration());
  }

  void Open() {
    auto session = Session::Open(options_);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  FakeServer server_;
  FakeAcceptor acceptor_{&server_};
  GrpcServer grpc_{GrpcServerOptions()};
  SessionOptions options_;
  std::unique_ptr<Session> session_;
};

TEST_F(SessionGrpcTest, CommandsRepliesAndCopiesPass) {
  Open();
  const std::string tail(100000, 't');
  for (int i = 0; i < 200; ++i) ASSERT_NE(session_->commands().Send(cmd::CopyToDevice{}, tail), 0u);
  EXPECT_EQ(session_->commands().Call(WaitKind::kSynchronize, cmd::ContextSync{}),
            CudaResult::kSuccess);
  std::vector<char> data(3000000);
  const uint64_t src = session_->terms().arena_base;
  ASSERT_EQ(session_->commands().CopyOut(1, data.data(), src, data.size(), true, nullptr),
            CudaResult::kSuccess);
  for (size_t i = 0; i < data.size(); i += 997) ASSERT_EQ(data[i], DeviceByte(src + i));
  session_->Close(absl::Seconds(5));
  EXPECT_EQ(server_.commands().size(), 202u);
  EXPECT_TRUE(server_.close_seen());
}

TEST_F(SessionGrpcTest, RefusalHasTheServersStatus) {
  server_.admit = [](const auto&) { return absl::ResourceExhaustedError("full"); };
  const auto session = Session::Open(options_);
  EXPECT_EQ(session.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(session.status().message(), "full");
}

TEST_F(SessionGrpcTest, RefusedArenaIsTriedElsewhere) {
  std::atomic<int> tries = 0;  // Counted on the server's thread.
  server_.admit = [&](const auto&) {
    return ++tries == 1 ? ArenaUnavailable("taken") : absl::OkStatus();
  };
  Open();
  EXPECT_EQ(tries, 2);
}

TEST_F(SessionGrpcTest, ServersEndEndsTheWait) {
  Open();
  server_.on_command = [](const FakeServer::Command&, std::string*) { return true; };
  std::thread waiter([this] {
    EXPECT_EQ(session_->commands().Call(WaitKind::kSynchronize, cmd::ContextSync{}),
              CudaResult::kLaunchFailed);
  });
  server_.AwaitCommand(1);
  grpc_.Shutdown(absl::ZeroDuration());
  waiter.join();
}

TEST(SessionGrpcDeadlineTest, NobodyThereIsUnavailable) {
  SessionOptions options;
  options.endpoint = "unix:/nonexistent/socket";
  options.deadline = absl::Milliseconds(300);
  EXPECT_EQ(Session::Open(options).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace warpline::stub
