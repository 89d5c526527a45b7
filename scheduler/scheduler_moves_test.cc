// Leases that move to another server, and what must not come of it.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lease/token.h"
#include "scheduler/moves.h"
#include "scheduler/scheduler_moves_fixture.h"

namespace warpline::scheduler {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

INSTANTIATE_TEST_SUITE_P(States, SchedulerMovesTest, kStateKinds, StateKindName);

TEST_P(SchedulerMovesTest, ALeaseMovesAndItsHolderIsToldWhere) {
  const LeaseReply lease = Granted();
  const auto begun = Move(lease.lease());
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->state(), MoveReply::MOVING);
  EXPECT_EQ(begun->server(), "b");
  EXPECT_EQ(begun->device(), "GPU-b");
  EXPECT_EQ(Listed(lease.lease()).reason(), "moves to b");
  EXPECT_EQ(Listed(lease.lease()).server(), "a");
  // The server that has it is told, with each answer; the other one is not.
  const ServerReport with = WithSessions(Report("a"), lease.lease());
  const MoveOrder order = OrderOf(with, lease.lease());
  EXPECT_EQ(order.server(), "b");
  EXPECT_EQ(order.endpoint(), "b:14000");
  EXPECT_EQ(order.expires_in_ms(), absl::ToInt64Milliseconds(kMoveDeadline));
  EXPECT_EQ(OrderOf(with, lease.lease()).ticket(), order.ticket());
  EXPECT_EQ(Tell(Report("b")).moves_size(), 0);
  const LeaseToken ticket = Opened(order.ticket());
  EXPECT_TRUE(CheckTicket(ticket, "b", now_).ok());
  EXPECT_FALSE(CheckToken(ticket, "b", now_).ok());
  EXPECT_EQ(ticket.lease, lease.lease());
  EXPECT_EQ(ticket.moved_from, "a");
  EXPECT_EQ(ticket.devices, std::vector<std::string>{"GPU-b"});
  EXPECT_EQ(ticket.slice.memory_bytes, 4 * kGiB);
  // A request that is repeated asks.
  EXPECT_EQ(Move(lease.lease())->state(), MoveReply::MOVING);
  const auto committed = Commit("b", order.ticket(), {{7, 1}, {9, 2}});
  ASSERT_TRUE(committed.ok()) << committed.status();
  const LeaseToken token = Opened(committed->token());
  EXPECT_TRUE(CheckToken(token, "b", now_).ok());
  EXPECT_EQ(token.lease, lease.lease());
  EXPECT_EQ(token.max_sessions, Opened(lease.token()).max_sessions);
  EXPECT_TRUE(token.moved_from.empty());
  EXPECT_EQ(Tell(with).moves_size(), 0);
  EXPECT_EQ(Listed(lease.lease()).server(), "b");
  EXPECT_EQ(Listed(lease.lease()).device(), "GPU-b");
  EXPECT_EQ(Listed(lease.lease()).reason(), "");
  const MoveReply moved = Asked(lease.lease());
  EXPECT_EQ(moved.state(), MoveReply::MOVED);
  EXPECT_EQ(moved.sessions(), 2u);
  EXPECT_EQ(moved.bytes(), 4096u);
  EXPECT_EQ(scheduler_->Counts().moved, 1u);
  const auto renewed = scheduler_->Renew(lease.token());
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->endpoint(), "b:14000");
  EXPECT_EQ(renewed->server(), "b");
  EXPECT_TRUE(CheckToken(Opened(renewed->token()), "b", now_).ok());
  // Its former room is free, and its new one is not.
  EXPECT_EQ(Acquire(16)->server(), "a");
  EXPECT_EQ(Acquire(13).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(Acquire(12).ok());
}

TEST_P(SchedulerMovesTest, AnAnswerThatWasLostIsGivenAgain) {
  const LeaseReply lease = Granted();
  ASSERT_TRUE(Move(lease.lease()).ok());
  const std::string ticket = OrderOf(Report("a"), lease.lease()).ticket();
  ASSERT_TRUE(Commit("b", ticket, {{7, 1}}).ok());
  // Also by a scheduler that was started since, and after the ticket's time.
  Restart();
  Tell(Report("a"));
  Tell(WithSessions(Report("b"), lease.lease()));
  const auto again = Commit("b", ticket, {{7, 1}});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(CheckToken(Opened(again->token()), "b", now_).ok());
  const auto end = End("a", lease.lease());
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_TRUE(end->moved());
  EXPECT_EQ(end->endpoint(), "b:14000");
  ASSERT_EQ(end->sessions_size(), 1);
  EXPECT_EQ(end->sessions(0).from(), 7u);
  EXPECT_EQ(end->sessions(0).to(), 1u);
  EXPECT_EQ(Asked(lease.lease(), "b").state(), MoveReply::MOVED);
  for (absl::Duration passed; passed < kMoveDeadline; passed += absl::Seconds(4)) {
    Pass(absl::Seconds(4));
    Tell(WithSessions(Report("b"), lease.lease()));
  }
  EXPECT_TRUE(Commit("b", ticket, {{7, 1}}).ok());
}

TEST_P(SchedulerMovesTest, AMoveThatASchedulerForgotIsOver) {
  const LeaseReply lease = Granted();
  ASSERT_TRUE(Move(lease.lease()).ok());
  const std::string ticket = OrderOf(Report("a"), lease.lease()).ticket();
  Restart();
  Tell(Report("b"));
  EXPECT_EQ(Tell(Report("a")).moves_size(), 0);
  const auto late = Commit("b", ticket);
  EXPECT_EQ(late.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(late.status().message(), HasSubstr("no such move"));
  const auto end = End("a", lease.lease());
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_FALSE(end->moved());
  EXPECT_EQ(Asked(lease.lease(), "b").state(), MoveReply::FAILED);
  EXPECT_EQ(Listed(lease.lease()).server(), "a");
  // Its room is not taken.
  EXPECT_EQ(Acquire(16)->server(), "b");
}

TEST_P(SchedulerMovesTest, TheSourceEndsAMoveOrLearnsThatItWasMade) {
  const LeaseReply lease = Granted();
  ASSERT_TRUE(Move(lease.lease()).ok());
  const std::string ticket = OrderOf(Report("a"), lease.lease()).ticket();
  ASSERT_TRUE(End("a", lease.lease()).ok());
  EXPECT_FALSE(End("a", lease.lease())->moved()) << "asked twice, it says the same";
  const auto late = Commit("b", ticket);
  EXPECT_EQ(late.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(late.status().message(), HasSubstr("the link broke"));
  EXPECT_EQ(Asked(lease.lease()).state(), MoveReply::FAILED);
  EXPECT_THAT(Asked(lease.lease()).why(), HasSubstr("server a could not send it: the link broke"));
  EXPECT_EQ(scheduler_->Counts().moves_failed, 1u);
  // Its room is given back, and it may be tried again.
  EXPECT_EQ(Move(lease.lease())->state(), MoveReply::MOVING);
  ASSERT_TRUE(Commit("b", OrderOf(Report("a"), lease.lease()).ticket(), {{1, 5}}).ok());
  EXPECT_TRUE(End("a", lease.lease())->moved());
  EXPECT_EQ(End("a", "nothing").status().code(), Code::kNotFound);
}

TEST_P(SchedulerMovesTest, WhatCannotMoveIsRefusedInPlainWords) {
  const LeaseReply lease = Granted();
  const auto refusal = [&](const MoveRequest& request) {
    return scheduler_->Move(request).status();
  };
  MoveRequest request = Request(lease.lease());
  request.set_credential("other");
  EXPECT_EQ(refusal(request).code(), Code::kUnauthenticated);
  EXPECT_EQ(refusal(Request("none")).code(), Code::kNotFound);
  EXPECT_EQ(refusal(Request(lease.lease(), "none")).code(), Code::kNotFound);
  EXPECT_EQ(refusal(Request(lease.lease(), "a")).message(), "server a has the lease already");
  EXPECT_EQ(refusal(Request(std::string(300, 'x'))).code(), Code::kInvalidArgument);
  request = Request(lease.lease());
  request.set_device("GPU-b");
  EXPECT_EQ(refusal(request).code(), Code::kInvalidArgument);
  request = Request(lease.lease(), "b");
  request.set_device("GPU-x");
  EXPECT_EQ(refusal(request).code(), Code::kNotFound);
  ASSERT_TRUE(Cordon("b", true).ok());
  EXPECT_EQ(refusal(Request(lease.lease(), "b")).message(), "server b is cordoned");
  EXPECT_EQ(refusal(Request(lease.lease())).code(), Code::kFailedPrecondition);
  ASSERT_TRUE(Cordon("b", false).ok());
  ServerReport draining = Report("b");
  draining.set_draining(true);
  Tell(draining);
  EXPECT_EQ(refusal(Request(lease.lease(), "b")).message(), "server b is being drained");
  EXPECT_FALSE(Move(lease.lease()).ok());
  ServerReport another = Report("b");
  another.mutable_devices(0)->set_name("another model");
  Tell(another);
  EXPECT_THAT(refusal(Request(lease.lease(), "b")).message(), HasSubstr("no device of the same"));
  EXPECT_THAT(refusal(Request(lease.lease())).message(), HasSubstr("no other server"));
  Tell(Report("b"));
  ASSERT_EQ(Acquire(13)->server(), "b");
  const absl::Status full = refusal(Request(lease.lease(), "b"));
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_THAT(full.message(), HasSubstr("4096 MiB wanted"));
  Pass(lost_after_ * 2);
  EXPECT_EQ(refusal(Request(lease.lease())).message(),
            "server a, which has the lease, does not report");
  Tell(Report("a"));
  EXPECT_EQ(refusal(Request(lease.lease(), "b")).message(), "server b does not report");
  ASSERT_TRUE(Revoke(lease.lease()).ok());
  EXPECT_THAT(refusal(Request(lease.lease())).message(), HasSubstr("the lease was ended"));
}

TEST_P(SchedulerMovesTest, ALeaseOfSeveralDevicesStays) {
  ServerReport two = Report("a");
  *two.add_devices() = two.devices(0);
  two.mutable_devices(1)->set_uuid("GPU-a2");
  Tell(two);
  AcquireRequest request;
  request.set_devices(2);
  const auto lease = scheduler_->Acquire(request, false, true);
  ASSERT_TRUE(lease.ok()) << lease.status();
  Tell(Report("b"));
  const auto refused = Move(lease->lease());
  EXPECT_EQ(refused.status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(refused.status().message(), "leases of several devices cannot be moved");
}

TEST_P(SchedulerMovesTest, ADeviceIsNamedByTheBeginningOfItsUuid) {
  const LeaseReply lease = Granted();
  ServerReport two = Report("b");
  *two.add_devices() = two.devices(0);
  two.mutable_devices(1)->set_uuid("GPU-second");
  Tell(two);
  MoveRequest request = Request(lease.lease(), "b");
  request.set_device("GPU-se");
  EXPECT_EQ(scheduler_->Move(request)->device(), "GPU-second");
  EXPECT_EQ(scheduler_->Move(request)->state(), MoveReply::MOVING);
  request.set_device("GPU-b");
  EXPECT_EQ(scheduler_->Move(request).status().code(), Code::kFailedPrecondition);
}

TEST_P(SchedulerMovesTest, OnlySoManyOfAServerMoveAtATime) {
  Tell(Report("a"));
  std::vector<std::string> leases;
  for (size_t i = 0; i < 8; ++i) leases.push_back(Acquire(1)->lease());
  Tell(Report("b"));
  static_assert(kMostMovesFrom == 8);
  for (const std::string& lease : leases) ASSERT_TRUE(Move(lease).ok());
  EXPECT_EQ(Tell(Report("a")).moves_size(), 8);
  ASSERT_TRUE(Commit("b", OrderOf(Report("a"), leases[0]).ticket()).ok());
  EXPECT_EQ(Tell(Report("a")).moves_size(), 7);
}

TEST_P(SchedulerMovesTest, AMoveThatTheServersDoNotFinishIsOver) {
  const LeaseReply lease = Granted();
  ASSERT_TRUE(Move(lease.lease()).ok());
  std::string ticket;
  // Its sessions rest: no report has them. All the same the lease does not run out.
  for (absl::Duration passed; passed < kMoveDeadline; passed += absl::Seconds(4)) {
    ticket = OrderOf(Report("a"), lease.lease()).ticket();
    ASSERT_FALSE(ticket.empty()) << passed;
    Tell(Report("b"));
    Pass(absl::Seconds(4));
  }
  EXPECT_EQ(Tell(Report("a")).moves_size(), 0);
  EXPECT_EQ(Asked(lease.lease()).state(), MoveReply::FAILED);
  EXPECT_EQ(Asked(lease.lease()).why(), "the servers did not finish it in time");
  const auto late = Commit("b", ticket);
  EXPECT_EQ(late.status().code(), Code::kUnauthenticated);
  EXPECT_THAT(late.status().message(), HasSubstr("has expired"));
  // It has run out since, and both servers are free.
  EXPECT_EQ(Listed(lease.lease()).state(), "revoked");
  EXPECT_TRUE(Acquire(16).ok());
  EXPECT_TRUE(Acquire(16).ok());
}

TEST_P(SchedulerMovesTest, WhateverEndsALeaseEndsItsMove) {
  for (const std::string how : {"revoke", "release", "remove", "cordon", "drain"}) {
    SCOPED_TRACE(how);
    const LeaseReply lease = Granted();
    ASSERT_TRUE(Move(lease.lease(), "b").ok());
    const std::string ticket = OrderOf(Report("a"), lease.lease()).ticket();
    ASSERT_FALSE(ticket.empty());
    std::string why;
    if (how == "revoke") {
      ASSERT_TRUE(Revoke(lease.lease()).ok());
      why = "the operator revoked it: enough";
    } else if (how == "release") {
      ASSERT_TRUE(scheduler_->Release(lease.token()).ok());
      why = "the program that held it has ended";
    } else if (how == "remove") {
      ASSERT_TRUE(scheduler_->RemoveServer(ServerNamed("b", false)).ok());
      why = "server b has left the pool";
    } else if (how == "cordon") {
      ASSERT_TRUE(Cordon("b", true).ok());
      why = "server b was cordoned meanwhile";
    } else {
      ASSERT_TRUE(Cordon("a", true, 4).ok());
      Tell(Report("a"));
      Tell(Report("b"));
      Pass(absl::Seconds(4));
      why = "server a is being drained";
    }
    EXPECT_EQ(Asked(lease.lease()).state(), MoveReply::FAILED);
    EXPECT_THAT(Asked(lease.lease()).why(), HasSubstr(why));
    EXPECT_EQ(Tell(Report("a")).moves_size(), 0);
    const auto late = Commit("b", ticket);
    EXPECT_EQ(late.status().code(), Code::kFailedPrecondition);
    EXPECT_THAT(late.status().message(), HasSubstr(why));
    (void)Cordon("a", false);
    Tell(Report("b"));
    (void)Cordon("b", false);
    (void)Revoke(lease.lease());
    // All room has been given back.
    const auto all = Acquire(16);
    const auto both = Acquire(16);
    ASSERT_TRUE(all.ok() && both.ok()) << all.status() << both.status();
    ASSERT_TRUE(scheduler_->Release(all->token()).ok());
    ASSERT_TRUE(scheduler_->Release(both->token()).ok());
    Pass(absl::Seconds(1));
    Tell(Report("a"));
    Tell(Report("b"));
    // So that the next lease is on "a".
    Pass(lost_after_ * 2);
  }
}

TEST_P(SchedulerMovesTest, AServerMayReportForAWhileWhatHasMovedAwayFromIt) {
  const LeaseReply lease = Granted();
  ServerReport with = WithSessions(Report("a"), lease.lease());
  with.set_instance(5);
  ASSERT_TRUE(Move(lease.lease()).ok());
  ASSERT_TRUE(Commit("b", OrderOf(with, lease.lease()).ticket()).ok());
  EXPECT_EQ(Tell(with).ended_size(), 0);
  Restart();
  Tell(WithSessions(Report("b"), lease.lease()));
  EXPECT_EQ(Tell(with).ended_size(), 0) << "another scheduler knows it, too";
  // Another process of the same name has none of its sessions.
  ServerReport another = with;
  another.set_instance(6);
  EXPECT_EQ(Tell(another).ended_size(), 1);
  for (int i = 0; i < 10; ++i) {
    Pass(absl::Seconds(3));
    Tell(WithSessions(Report("b"), lease.lease()));
  }
  const ReportReply told = Tell(with);
  ASSERT_EQ(told.ended_size(), 1);
  EXPECT_EQ(told.ended(0).reason(), "it has moved to another server");
  // That it is idle there means nothing.
  ServerReport idle = Report("a");
  idle.set_instance(5);
  idle.add_idle_leases(lease.lease());
  Tell(idle);
  EXPECT_EQ(Listed(lease.lease()).state(), "active");
  EXPECT_EQ(Tell(WithSessions(Report("b"), lease.lease())).ended_size(), 0);
}

TEST_P(SchedulerMovesTest, ALeaseThatLivesByItsSessionsMoves) {
  const LeaseReply lease = Granted(/*by_sessions=*/true);
  const ServerReport with = WithSessions(Report("a"), lease.lease());
  ASSERT_TRUE(Move(lease.lease()).ok());
  ASSERT_TRUE(Commit("b", OrderOf(with, lease.lease()).ticket(), {{1, 1}}).ok());
  ServerReport idle = Report("a");
  idle.add_idle_leases(lease.lease());
  Tell(idle);
  EXPECT_EQ(Listed(lease.lease()).server(), "b");
  Tell(WithSessions(Report("b"), lease.lease()));
  ServerReport over = Report("b");
  over.add_idle_leases(lease.lease());
  Tell(over);
  EXPECT_EQ(Listed(lease.lease()).id(), "");
  EXPECT_EQ(Acquire(16)->server(), "a");
  EXPECT_EQ(Acquire(16)->server(), "b");
}

TEST_P(SchedulerMovesTest, ALeaseThatLivesByItsSessionsTakesItsMoveWithIt) {
  const LeaseReply lease = Granted(/*by_sessions=*/true);
  ASSERT_TRUE(Move(lease.lease()).ok());
  const std::string ticket =
      OrderOf(WithSessions(Report("a"), lease.lease()), lease.lease()).ticket();
  ServerReport over = Report("a");
  over.add_idle_leases(lease.lease());
  EXPECT_EQ(Tell(over).moves_size(), 0);
  EXPECT_EQ(Asked(lease.lease()).state(), MoveReply::FAILED);
  EXPECT_EQ(Commit("b", ticket).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(End("a", lease.lease()).status().code(), Code::kNotFound);
}

TEST_P(SchedulerMovesTest, ADrainIsTakenBackForALeaseThatHasLeftItsServer) {
  const LeaseReply lease = Granted();
  ASSERT_TRUE(Cordon("a", true, 60).ok());
  EXPECT_GT(scheduler_->Renew(lease.token())->ends_in_ms(), 0u);
  ASSERT_TRUE(Move(lease.lease()).ok());
  const std::string ticket = OrderOf(Report("a"), lease.lease()).ticket();
  EXPECT_EQ(Opened(ticket).ends, absl::InfiniteFuture()) << "the drain is of the server it leaves";
  const auto committed = Commit("b", ticket);
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_EQ(Opened(committed->token()).ends, absl::InfiniteFuture());
  EXPECT_EQ(scheduler_->Renew(lease.token())->ends_in_ms(), 0u);
  for (int i = 0; i < 30; ++i) {
    Tell(WithSessions(Report("b"), lease.lease()));
    Pass(absl::Seconds(4));
  }
  EXPECT_EQ(Listed(lease.lease()).state(), "active");
}

TEST_P(SchedulerMovesTest, ATokenStaysThatOfItsHoldersCertificate) {
  Tell(Report("a"));
  AcquireRequest request;
  const CertificateHolder holder = {"abc", " names"};
  const auto lease = scheduler_->Acquire(request, /*by_sessions=*/true, true, holder);
  ASSERT_TRUE(lease.ok()) << lease.status();
  Restart();
  Tell(Report("a"));
  Tell(Report("b"));
  ASSERT_TRUE(Move(lease->lease()).ok());
  const std::string ticket = OrderOf(Report("a"), lease->lease()).ticket();
  EXPECT_EQ(Opened(ticket).holder, holder);
  EXPECT_EQ(Opened(Commit("b", ticket)->token()).holder, holder);
}

TEST_P(SchedulerMovesTest, ATicketIsGoodForNothingElseAndForNobodyElse) {
  for (const char* const server : {"a", "b", "c"}) AddServer(server);
  Tell(Report("a"));
  const auto lease = Acquire(4);
  const auto other = Acquire(4);
  ASSERT_TRUE(lease.ok() && other.ok());
  Tell(Report("b"));
  Tell(Report("c"));
  const std::string id = lease->lease();
  ASSERT_TRUE(Move(id, "b").ok());
  ASSERT_TRUE(Move(other->lease(), "c").ok());
  const std::string ticket = OrderOf(Report("a"), id).ticket();
  const std::string of_other = OrderOf(Report("a"), other->lease()).ticket();
  const auto expect = [&](const absl::Status& status, Code code, const std::string& words) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(status.message(), HasSubstr(words));
    EXPECT_EQ(Listed(id).server(), "a");
    EXPECT_EQ(Listed(other->lease()).server(), "a");
    EXPECT_EQ(Asked(id).state(), MoveReply::MOVING) << "the move goes on all the same";
  };
  std::string forged = ticket;
  forged[ticket.find('.') + 5] = forged[ticket.find('.') + 5] == 'A' ? 'B' : 'A';
  expect(Commit("b", forged).status(), Code::kUnauthenticated, "signature is wrong");
  expect(Commit("b", "").status(), Code::kUnauthenticated, "malformed");
  expect(Commit("b", std::string(kMaxTokenText + 1, 'x')).status(), Code::kInvalidArgument, "");
  const auto stranger = SigningKey::Generate();
  LeaseToken strange = Opened(ticket);
  expect(Commit("b", *SignToken(*stranger, strange)).status(), Code::kUnauthenticated,
         "unknown key");
  expect(Commit("c", ticket).status(), Code::kUnauthenticated, "is for server b, this is c");
  expect(Commit("a", ticket).status(), Code::kUnauthenticated, "is for server b, this is a");
  expect(Commit("b", of_other).status(), Code::kUnauthenticated, "is for server c, this is b");
  // A token of the lease that opens sessions is no ticket.
  expect(Commit("a", lease->token()).status(), Code::kUnauthenticated, "moves no lease");
  MoveCommit commit;
  commit.set_name("b");
  commit.set_ticket(ticket);
  commit.set_credential(servers_["c"]);
  expect(scheduler_->CommitMove(commit, true).status(), Code::kUnauthenticated,
         "does not take a server by the name of b");
  expect(Commit("b", ticket, {{1, 1}, {1, 2}}).status(), Code::kInvalidArgument, "named twice");
  expect(Commit("b", ticket, {{1, 2}, {3, 2}}).status(), Code::kInvalidArgument, "named twice");
  expect(End("c", id).status(), Code::kPermissionDenied, "does not move from server c");
  expect(End("b", id).status(), Code::kPermissionDenied, "does not move from server b");
  MoveEnd end;
  end.set_name("a");
  end.set_lease(id);
  end.set_credential(servers_["b"]);
  expect(scheduler_->EndMove(end, true).status(), Code::kUnauthenticated,
         "does not take a server by the name of a");
  expect(scheduler_->Renew(ticket).status(), Code::kUnauthenticated, "neither renews nor ends");
  expect(scheduler_->Release(ticket), Code::kUnauthenticated, "neither renews nor ends");
  // A ticket of an earlier move, within the same millisecond.
  ASSERT_TRUE(End("a", id).ok());
  ASSERT_TRUE(Move(id, "b").ok());
  expect(Commit("b", ticket).status(), Code::kFailedPrecondition, "earlier move");
  const std::string later = OrderOf(Report("a"), id).ticket();
  EXPECT_NE(later, ticket);
  EXPECT_TRUE(Commit("b", later).ok());
  EXPECT_EQ(Listed(id).server(), "b");
  EXPECT_EQ(Commit("b", ticket).status().code(), Code::kFailedPrecondition);
  // And it does not bring the lease back when that has moved on.
  ASSERT_TRUE(Move(id, "c").ok());
  Tell(Report("b"));
  ASSERT_TRUE(Commit("c", OrderOf(Report("b"), id).ticket()).ok());
  EXPECT_EQ(Commit("b", later).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(End("a", id).status().code(), Code::kPermissionDenied);
  EXPECT_TRUE(End("b", id)->moved());
  EXPECT_EQ(Listed(id).server(), "c");
}

// The report of a server that leaves.
ServerReport Leaving(ServerReport report) {
  report.set_draining(true);
  report.set_leaves(true);
  return report;
}

TEST_P(SchedulerMovesTest, AServerThatLeavesHasItsLeasesMovedWhereTheSchedulerChooses) {
  Tell(Report("a"));
  const std::string lease = Acquire(4)->lease();
  EXPECT_EQ(Tell(Report("a")).leases_to_move(), 0u);
  // Nobody takes them yet, and it is tried again.
  EXPECT_EQ(Tell(Leaving(Report("a"))).leases_to_move(), 1u);
  EXPECT_EQ(Tell(Leaving(Report("a"))).moves_size(), 0);
  Tell(Report("b"));
  ReportReply reply = Tell(Leaving(Report("a")));
  EXPECT_EQ(reply.leases_to_move(), 1u);
  ASSERT_EQ(reply.moves_size(), 1);
  EXPECT_EQ(reply.moves(0).server(), "b");
  // A lease that could not be sent is tried no more than so often.
  static_assert(kMostMoveTries == 3);
  EXPECT_FALSE(End("a", lease)->moved());
  reply = Tell(Leaving(Report("a")));
  EXPECT_EQ(reply.leases_to_move(), 0u);
  EXPECT_EQ(reply.moves_size(), 0);
  EXPECT_EQ(Listed(lease).server(), "a");
  // A server that does not leave any more, and then does, has all its tries.
  Tell(Report("a"));
  reply = Tell(Leaving(Report("a")));
  ASSERT_EQ(reply.moves_size(), 1);
  ASSERT_TRUE(Commit("b", reply.moves(0).ticket()).ok());
  EXPECT_EQ(Tell(Leaving(Report("a"))).leases_to_move(), 0u);
  EXPECT_EQ(Listed(lease).server(), "b");
}

TEST_P(SchedulerMovesTest, AllLeasesOfAServerThatLeavesMoveSoManyAtATime) {
  max_leases_ = kMostMovesFrom + 3;
  Restart();
  Tell(Report("a"));
  std::vector<std::string> leases;
  for (size_t i = 0; i < kMostMovesFrom + 3; ++i) leases.push_back(Acquire(1)->lease());
  Tell(Report("b"));
  size_t moved = 0;
  while (true) {
    const ReportReply reply = Tell(Leaving(Report("a")));
    EXPECT_EQ(reply.leases_to_move(), leases.size() - moved);
    if (reply.leases_to_move() == 0) break;
    ASSERT_EQ(static_cast<size_t>(reply.moves_size()),
              std::min(kMostMovesFrom, leases.size() - moved));
    ASSERT_TRUE(Commit("b", reply.moves(0).ticket()).ok());
    ++moved;
  }
  for (const std::string& lease : leases) EXPECT_EQ(Listed(lease).server(), "b");
}

TEST_P(SchedulerMovesTest, AServerThatLeavesMovesNothingOfOthers) {
  for (const char* const server : {"a", "b", "c"}) AddServer(server);
  Tell(Report("a"));
  const std::string lease = Acquire(4)->lease();
  Tell(Report("b"));
  Tell(Report("c"));
  // Another server, with its own credential: it has nothing, whatever it reports.
  const ReportReply reply = Tell(Leaving(WithSessions(Report("b"), lease)));
  EXPECT_EQ(reply.leases_to_move(), 0u);
  EXPECT_EQ(reply.moves_size(), 0);
  EXPECT_EQ(Asked(lease).state(), MoveReply::FAILED) << "there is no move";
  // In the first one's name, with the other's credential, a token of a tenant, or none.
  for (const std::string& credential : {servers_["b"], std::string("stranger"), std::string()}) {
    ServerReport forged = Leaving(Report("a"));
    forged.set_credential(credential);
    EXPECT_EQ(scheduler_->Report(forged, true).status().code(), Code::kUnauthenticated);
    EXPECT_EQ(scheduler_->Report(forged, false).status().code(), Code::kUnauthenticated);
  }
  const auto tenant = AddTenant("t", 0, 0, 0);
  ServerReport forged = Leaving(Report("a"));
  forged.set_credential(tenant);
  EXPECT_EQ(scheduler_->Report(forged, true).status().code(), Code::kUnauthenticated);
  EXPECT_EQ(Asked(lease).state(), MoveReply::FAILED) << "there is no move";
  EXPECT_EQ(Listed(lease).server(), "a");
  // The operator's method takes no server's credential.
  MoveRequest request = Request(lease, "b");
  request.set_credential(servers_["a"]);
  EXPECT_EQ(scheduler_->Move(request).status().code(), Code::kUnauthenticated);
  // One that does not drain does not leave, since it would be given other leases meanwhile.
  ServerReport stays = Report("a");
  stays.set_leaves(true);
  EXPECT_EQ(Tell(stays).leases_to_move(), 0u);
}

TEST_P(SchedulerMovesTest, ACommitOfOtherSessionsIsNotTheSameCommit) {
  const LeaseReply lease = Granted();
  ASSERT_TRUE(Move(lease.lease()).ok());
  const std::string ticket = OrderOf(Report("a"), lease.lease()).ticket();
  ASSERT_TRUE(Commit("b", ticket, {{7, 1}}).ok());
  for (const auto& sessions : std::vector<std::vector<std::pair<uint64_t, uint64_t>>>{
           {}, {{7, 2}}, {{8, 1}}, {{7, 1}, {8, 2}}}) {
    const auto again = Commit("b", ticket, sessions);
    EXPECT_EQ(again.status().code(), Code::kFailedPrecondition);
    EXPECT_THAT(again.status().message(), HasSubstr("other sessions"));
  }
  EXPECT_TRUE(Commit("b", ticket, {{7, 1}}).ok());
  EXPECT_EQ(End("a", lease.lease())->sessions_size(), 1);
}

}  // namespace
}  // namespace warpline::scheduler
