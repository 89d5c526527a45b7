// Moves of a lease among three servers whose answers may be lost, with all else that may happen.
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/scheduler_moves_fixture.h"

namespace warpline::scheduler {
namespace {

// Three servers that do with a lease's sessions what the scheduler's answers say. Some answers
// never reach them.
class RandomMoves : public SchedulerMovesTest {
 protected:
  enum class Has { kNothing, kRuns, kRests, kCopy };

  static constexpr const char* kServers[] = {"a", "b", "c"};

  bool Lost() { return random_() % 4 == 0; }

  // Takes what the scheduler says of the lease to a server's report.
  void ReportOf(const std::string& server) {
    ServerReport report = Report(server);
    report.set_instance(server[0]);
    const bool has = has_[server] == Has::kRuns || has_[server] == Has::kRests;
    const ReportReply reply = Tell(has ? WithSessions(report, lease_) : report);
    for (const auto& ended : reply.ended()) {
      if (ended.lease() == lease_ && has) has_[server] = Has::kNothing;
    }
    for (const auto& order : reply.moves()) {
      if (order.lease() != lease_ || has_[server] != Has::kRuns) continue;
      ASSERT_NE(has_[order.server()], Has::kRuns);
      // A server takes nothing of a lease while it does not know what became of its own sessions.
      // A copy that came with an earlier ticket is replaced.
      if (has_[order.server()] == Has::kRests) {
        (void)End(server, lease_);
        continue;
      }
      has_[server] = Has::kRests;
      has_[order.server()] = Has::kCopy;
      ticket_[order.server()] = order.ticket();
    }
  }

  void CommitAt(const std::string& server, bool lost) {
    if (has_[server] != Has::kCopy) return;
    const auto reply = Commit(server, ticket_[server], {{1, 1}});
    if (lost) return;
    has_[server] = reply.ok() ? Has::kRuns : Has::kNothing;
    if (reply.ok()) ++committed_;
  }

  void EndAt(const std::string& server, bool lost) {
    if (has_[server] != Has::kRests) return;
    const auto reply = End(server, lease_);
    if (lost) return;
    has_[server] = reply.ok() && !reply->moved() ? Has::kRuns : Has::kNothing;
    ++(has_[server] == Has::kRuns ? resumed_ : given_up_);
  }

  int Running() {
    int running = 0;
    for (const char* const server : kServers) running += has_[server] == Has::kRuns ? 1 : 0;
    return running;
  }

  void Step() {
    for (const char* const server : kServers) {
      if (random_() % 3 != 0) ReportOf(server);
    }
    const std::string server = kServers[random_() % 3];
    switch (random_() % 16) {
      case 0:
      case 1:
      case 2:
        (void)Move(lease_, random_() % 2 == 0 ? server : "");
        break;
      case 3:
      case 4:
      case 5:
        CommitAt(server, Lost());
        break;
      case 6:
      case 7:
        EndAt(server, Lost());
        break;
      case 8:
        if (random_() % 4 == 0) ended_ = Revoke(lease_).ok();
        break;
      case 9:
        if (random_() % 4 == 0) ended_ = scheduler_->Release(token_).ok();
        break;
      case 10:
        Restart();
        break;
      case 11:
        // It is lost.
        for (int i = 0; i < 3; ++i) {
          Pass(absl::Seconds(2));
          for (const char* const other : kServers) {
            if (other != server) ReportOf(other);
          }
        }
        break;
      case 12:
        (void)Cordon(server, random_() % 4 == 0);
        break;
      default:
        ReportOf(server);
    }
    ASSERT_LE(Running(), 1);
  }

  std::mt19937_64 random_{5};
  std::string lease_;
  std::string token_;
  std::map<std::string, Has> has_;
  std::map<std::string, std::string> ticket_;
  bool ended_ = false;
  int committed_ = 0;
  int resumed_ = 0;
  int given_up_ = 0;
};

INSTANTIATE_TEST_SUITE_P(States, RandomMoves, kStateKinds, StateKindName);

TEST_P(RandomMoves, ALeaseIsOnOneServerWhateverGoesWrong) {
  for (const char* const server : kServers) AddServer(server);
  int survived = 0;
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    for (const char* const server : kServers) {
      has_[server] = Has::kNothing;
      (void)Cordon(server, false);
      ReportOf(server);
    }
    const auto lease = Acquire(4);
    ASSERT_TRUE(lease.ok()) << lease.status();
    lease_ = lease->lease();
    token_ = lease->token();
    has_[lease->server()] = Has::kRuns;
    ended_ = false;
    for (int step = 0; step < 30 && !ended_; ++step) {
      Step();
      if (HasFatalFailure()) return;
      Pass(absl::Milliseconds(static_cast<int64_t>(random_() % 1000)));
    }
    // Everything that is open is settled, until no move is under way.
    for (const char* const server : kServers) (void)Cordon(server, false);
    const bool source_first = random_() % 2 == 0;
    for (int i = 0; i < 4; ++i) {
      for (const char* const server : kServers) {
        ReportOf(server);
        if (source_first) EndAt(server, /*lost=*/false);
      }
      for (const char* const server : kServers) CommitAt(server, /*lost=*/false);
      for (const char* const server : kServers) EndAt(server, /*lost=*/false);
      ASSERT_LE(Running(), 1);
    }
    const bool active = Listed(lease_).state() == "active";
    ASSERT_EQ(active, !ended_);
    ASSERT_EQ(Running(), active ? 1 : 0);
    if (active) {
      ++survived;
      const std::string at = Listed(lease_).server();
      ASSERT_EQ(has_[at], Has::kRuns);
      ASSERT_EQ(scheduler_->Renew(token_)->server(), at);
      // The room of moves that were not made has been given back, and no more than that.
      std::vector<std::string> tokens;
      for (const uint64_t gib : {16, 16, 12}) {
        const auto rest = Acquire(gib);
        ASSERT_TRUE(rest.ok()) << rest.status();
        ASSERT_EQ(rest->server() == at, gib == 12);
        tokens.push_back(rest->token());
      }
      ASSERT_FALSE(Acquire(1).ok());
      for (const std::string& token : tokens) ASSERT_TRUE(scheduler_->Release(token).ok());
      ASSERT_TRUE(scheduler_->Release(token_).ok());
    }
  }
  EXPECT_GT(survived, 25);
  EXPECT_GT(committed_, 25);
  EXPECT_GT(resumed_, 10);
  EXPECT_GT(given_up_, 10);
}

}  // namespace
}  // namespace warpline::scheduler
