// A scheduler with servers between which leases move: what its operator and these servers ask.
#ifndef WARPLINE_SCHEDULER_SCHEDULER_MOVES_FIXTURE_H_
#define WARPLINE_SCHEDULER_SCHEDULER_MOVES_FIXTURE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lease/token.h"
#include "scheduler/scheduler_fixture.h"

namespace warpline::scheduler {

using warpline_internal::MoveCommit;
using warpline_internal::MoveCommitReply;
using warpline_internal::MoveEnd;
using warpline_internal::MoveEndReply;
using warpline_internal::MoveOrder;
using warpline_internal::MoveReply;
using warpline_internal::MoveRequest;

class SchedulerMovesTest : public SchedulerTest {
 protected:
  static MoveRequest Request(const std::string& lease, const std::string& to = "") {
    MoveRequest request;
    request.set_credential("operator");
    request.set_lease(lease);
    request.set_to(to);
    return request;
  }

  absl::StatusOr<MoveReply> Move(const std::string& lease, const std::string& to = "") {
    return scheduler_->Move(Request(lease, to));
  }

  MoveReply Asked(const std::string& lease, const std::string& to = "") {
    MoveRequest request = Request(lease, to);
    request.set_only_ask(true);
    auto reply = scheduler_->Move(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.value_or(MoveReply());
  }

  std::string CredentialOf(const std::string& server) {
    return servers_.count(server) == 0 ? "" : servers_[server];
  }

  absl::StatusOr<MoveCommitReply> Commit(const std::string& server, const std::string& ticket,
                                         std::vector<std::pair<uint64_t, uint64_t>> sessions = {}) {
    MoveCommit commit;
    commit.set_credential(CredentialOf(server));
    commit.set_name(server);
    commit.set_ticket(ticket);
    commit.set_bytes(4096);
    for (const auto& [from, to] : sessions) {
      auto* const session = commit.add_sessions();
      session->set_from(from);
      session->set_to(to);
    }
    return scheduler_->CommitMove(commit, true);
  }

  absl::StatusOr<MoveEndReply> End(const std::string& server, const std::string& lease) {
    MoveEnd end;
    end.set_credential(CredentialOf(server));
    end.set_name(server);
    end.set_lease(lease);
    end.set_why("the link broke");
    return scheduler_->EndMove(end, true);
  }

  // The order that the server gets for the lease; an empty one for none.
  MoveOrder OrderOf(const ServerReport& report, const std::string& lease) {
    const ReportReply reply = Tell(report);
    for (const MoveOrder& order : reply.moves()) {
      if (order.lease() == lease) return order;
    }
    return {};
  }

  absl::Status Revoke(const std::string& lease) {
    warpline_internal::RevokeRequest request;
    request.set_credential("operator");
    request.set_lease(lease);
    request.set_reason("enough");
    return scheduler_->Revoke(request);
  }

  absl::Status Cordon(const std::string& server, bool cordoned, int64_t seconds = -1) {
    warpline_internal::CordonRequest request;
    request.set_credential("operator");
    request.set_name(server);
    request.set_cordoned(cordoned);
    if (seconds >= 0) request.set_drained_in_ms(static_cast<uint64_t>(seconds) * 1000);
    return scheduler_->CordonServer(request);
  }

  // The token as it was signed.
  LeaseToken Opened(const std::string& token) {
    const auto keys = KeyRing::Open(folder_ + "/keys", absl::Hours(1), absl::Seconds(5), now_);
    const auto opened = OpenToken(token, keys->VerifyKeys());
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.value_or(LeaseToken());
  }

  warpline_internal::Lease Listed(const std::string& lease) {
    const auto list = scheduler_->Leases("operator");
    for (const auto& one : list->leases()) {
      if (one.id() == lease) return one;
    }
    return {};
  }

  // Servers "a" and "b", and a lease of 4 GiB on "a".
  LeaseReply Granted(bool by_sessions = false) {
    Tell(Report("a"));
    const auto lease = Acquire(4, "", by_sessions);
    EXPECT_TRUE(lease.ok()) << lease.status();
    Tell(Report("b"));
    return lease.value_or(LeaseReply());
  }
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SCHEDULER_MOVES_FIXTURE_H_
