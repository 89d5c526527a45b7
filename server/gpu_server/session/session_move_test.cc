// Tickets that are shown to a server, in good faith and otherwise.
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lease/signing_key.h"
#include "lease/token.h"
#include "proto/frames.h"
#include "proto/scheduler.pb.h"
#include "server/gpu_server/testing/session_fixture.h"

namespace warpline::server {
namespace {

using testing::HasSubstr;
using Code = absl::StatusCode;

class SessionMoveTest : public SessionFixture {
 protected:
  void SetUp() override {
    lease_options_.required = true;
    lease_options_.server_name = "s";
    StartServer();
    leases_->SetKeys({key_.verify_key()});
    MoveServices services;
    services.commit = [this](const warpline_internal::MoveCommit& commit) {
      MutexLock lock(&mu_);
      commits_.push_back(commit.ticket());
      return committed_;
    };
    host_->StartMoves(std::move(services));
  }

  std::string Ticket(uint64_t move, const std::string& server = "s") const {
    LeaseToken ticket;
    ticket.lease = "1";
    ticket.tenant = "a";
    ticket.server = server;
    ticket.moved_from = "former";
    ticket.move = move;
    ticket.max_sessions = 1;
    ticket.expires = SteadyNow() + absl::Hours(1);
    return SignToken(key_, ticket).value();
  }

  // Shows a ticket, and returns how the channel ended: OK once the server has taken the lease over.
  absl::Status Show(const std::string& ticket, uint32_t sessions = 0) {
    auto client = Dial();
    warpline_internal::MoveHello hello;
    hello.set_ticket(ticket);
    hello.set_sessions(sessions);
    client->SendMessage(kMove, hello);
    if (client->Await(kMoveDone).has_value()) return absl::OkStatus();
    return client->AwaitClosed();
  }

  size_t commits() {
    MutexLock lock(&mu_);
    return commits_.size();
  }

  void SetCommitted(absl::StatusOr<std::string> committed) {
    MutexLock lock(&mu_);
    committed_ = std::move(committed);
  }

  const SigningKey key_ = SigningKey::Generate().value();

 private:
  Mutex mu_;
  std::vector<std::string> commits_ ABSL_GUARDED_BY(mu_);
  absl::StatusOr<std::string> committed_ ABSL_GUARDED_BY(mu_) = std::string("token");
};

TEST_F(SessionMoveTest, ATicketIsGoodOnce) {
  EXPECT_TRUE(Show(Ticket(1)).ok());
  const absl::Status again = Show(Ticket(1));
  EXPECT_EQ(again.code(), Code::kFailedPrecondition);
  EXPECT_THAT(again.message(), HasSubstr("the ticket has been used"));
  EXPECT_EQ(commits(), 1u) << "the scheduler is not even asked";
  EXPECT_TRUE(Show(Ticket(2)).ok());
}

TEST_F(SessionMoveTest, ATicketWhoseMoveFailedIsUsed) {
  SetCommitted(absl::FailedPreconditionError("the move is over"));
  EXPECT_THAT(Show(Ticket(1)).message(), HasSubstr("the move is over"));
  SetCommitted(std::string("token"));
  EXPECT_THAT(Show(Ticket(1)).message(), HasSubstr("the ticket has been used"));
  EXPECT_EQ(commits(), 1u);
  // The lease may come with another.
  EXPECT_TRUE(Show(Ticket(2)).ok());
}

TEST_F(SessionMoveTest, TheLeaseOfAServerIsNotHarmedByATicketThatIsShownAgain) {
  EXPECT_TRUE(Show(Ticket(1)).ok());
  EXPECT_FALSE(Show(Ticket(1), /*sessions=*/1).ok());
  // Its sessions are opened as before.
  LeaseToken token;
  token.lease = "1";
  token.tenant = "a";
  token.server = "s";
  token.max_sessions = 1;
  token.expires = SteadyNow() + absl::Hours(1);
  auto hello = TestClient::GoodHello();
  hello.set_token(SignToken(key_, token).value());
  auto client = Dial();
  EXPECT_TRUE(client->Open(hello).has_value());
  EXPECT_EQ(leases_->Sessions().at("1"), 1u) << "and reported";
}

TEST_F(SessionMoveTest, OtherTicketsMoveNothing) {
  EXPECT_EQ(Show(Ticket(1, "another")).code(), Code::kUnauthenticated);
  EXPECT_EQ(Show("no.ticket").code(), Code::kUnauthenticated);
  EXPECT_EQ(Show(Ticket(1), /*sessions=*/2).code(), Code::kResourceExhausted);
  EXPECT_EQ(commits(), 0u);
  host_->StartDrain();
  EXPECT_EQ(Show(Ticket(2)).code(), Code::kUnavailable);
}

}  // namespace
}  // namespace warpline::server
