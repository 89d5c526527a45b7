#include "scheduler/scheduler.h"

#include <string>
#include <vector>

#include "common/log/log_capture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lease/token.h"
#include "proto/refusal.h"
#include "proto/tier.h"
#include "scheduler/scheduler_fixture.h"
#include "scheduler/state_folder.h"

namespace warpline::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using Code = absl::StatusCode;

TEST_P(SchedulerTest, LeaseNamesAServerThatTakesItsToken) {
  const ReportReply keys = Tell(Report("a"));
  const auto lease = Acquire(4);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->endpoint(), "a:14000");
  EXPECT_EQ(lease->memory_bytes(), 4 * kGiB);
  const auto token = OpenToken(lease->token(), {{keys.keys(0).id(), keys.keys(0).key()}});
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_TRUE(CheckToken(*token, "a", now_).ok());
  EXPECT_EQ(token->tenant, "default");
  EXPECT_EQ(token->devices, std::vector<std::string>({"GPU-a"}));
}

TEST_P(SchedulerTest, PoolIsNotOverbooked) {
  EXPECT_EQ(Acquire(1).status().code(), Code::kUnavailable);
  EXPECT_EQ(RefusalOf(Acquire(1).status()).reason(), warpline_internal::Refusal::NO_SERVER);
  Tell(Report("a"));
  Tell(Report("b"));
  const auto first = Acquire(12);
  const auto second = Acquire(12);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->server(), second->server());
  EXPECT_EQ(Acquire(12).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(RefusalOf(Acquire(12).status()).reason(), warpline_internal::Refusal::UNSPECIFIED);
  ASSERT_TRUE(scheduler_->Release(first->token()).ok());
  EXPECT_EQ(Acquire(12)->server(), first->server());
}

TEST_P(SchedulerTest, LeasesAreBounded) {
  Tell(Report("a"));
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(Acquire(1).ok());
  EXPECT_EQ(Acquire(1).status().code(), Code::kResourceExhausted);
}

TEST_P(SchedulerTest, ATenantThatIsRefusedAllTheTimeDoesNotFillTheLog) {
  LogCapture log;
  Tell(Report("one"));
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(Acquire(1000).ok());
  EXPECT_EQ(log.LinesWith("refused a lease").size(), 20u);
  EXPECT_EQ(scheduler_->Counts().refused, 1000u);
  // Once it may call again: lines of another kind are still said, and at the end it is said what
  // was left out.
  Pass(absl::Seconds(1));
  EXPECT_TRUE(Acquire(1).ok());
  EXPECT_EQ(log.LinesWith("granted lease").size(), 1u);
  Restart();
  EXPECT_EQ(log.LinesWith("log lines left out refused=980").size(), 1u) << log.Text();
}

TEST_P(SchedulerTest, AServerThatReportsAnotherAddressAllTheTimeDoesNotFillTheLog) {
  LogCapture log;
  for (int i = 0; i < 100; ++i) {
    ServerReport report = Report("one");
    report.set_endpoint("host:" + std::to_string(i + 1));
    Tell(report);
  }
  EXPECT_EQ(log.LinesWith(" server=one").size(), 40u);
  Tell(Report("two"));
  EXPECT_EQ(log.LinesWith("registered server=two").size(), 1u);
}

TEST_P(SchedulerTest, EndedLeasesKeepNobodyFromGettingOne) {
  Tell(Report("a"));
  for (int i = 0; i < 100; ++i) {
    const auto lease = Acquire(1);
    ASSERT_TRUE(lease.ok()) << lease.status();
    ASSERT_TRUE(scheduler_->Release(lease->token()).ok());
  }
  // The number of ended leases that are remembered is bounded, too.
  EXPECT_LT(scheduler_->Leases("operator")->leases_size(), 70);
}

TEST_P(SchedulerTest, JumpOfTheClockEndsNoLeaseWithSessions) {
  Tell(Report("a"));
  const auto lease = Acquire(4, "", /*by_sessions=*/true);
  Tell(WithSessions(Report("a"), lease->lease()));
  Pass(absl::Hours(48));
  EXPECT_EQ(Tell(WithSessions(Report("a"), lease->lease())).ended_size(), 0);
  Pass(absl::Seconds(1));
  EXPECT_EQ(Tell(WithSessions(Report("a"), lease->lease())).ended_size(), 0);
  EXPECT_EQ(scheduler_->Leases("operator")->leases_size(), 1);
}

TEST_P(SchedulerTest, LeaseThatIsIdleNoMoreIsKept) {
  Tell(Report("a"));
  const auto lease = Acquire(4, "", /*by_sessions=*/true);
  ServerReport report = WithSessions(Report("a"), lease->lease());
  report.add_idle_leases(lease->lease());
  EXPECT_EQ(Tell(report).ended_size(), 0);
  EXPECT_EQ(Tell(WithSessions(Report("a"), lease->lease())).ended_size(), 0);
}

TEST_P(SchedulerTest, LeaseThatNobodyRenewsRunsOut) {
  Tell(Report("a"));
  const auto lease = Acquire(16);
  Pass(absl::Seconds(50));
  Tell(Report("a"));
  const auto renewed = scheduler_->Renew(lease->token());
  ASSERT_TRUE(renewed.ok());
  Pass(absl::Seconds(50));
  Tell(Report("a"));
  EXPECT_TRUE(scheduler_->Renew(lease->token()).ok());
  now_ += absl::Seconds(61);
  Tell(Report("a"));
  scheduler_->Housekeep();
  EXPECT_EQ(scheduler_->Renew(renewed->token()).status().code(), Code::kFailedPrecondition);
  EXPECT_TRUE(Acquire(16).ok());
  // A server that still has sessions of it is told why it ended.
  const ReportReply reply = Tell(WithSessions(Report("a"), lease->lease()));
  ASSERT_EQ(reply.ended_size(), 1);
  EXPECT_THAT(reply.ended(0).reason(), HasSubstr("nobody renewed"));
}

TEST_P(SchedulerTest, RenewalsInQuickSuccessionGetOneAnswer) {
  Tell(Report("a"));
  const auto lease = Acquire(4);
  const auto first = scheduler_->Renew(lease->token());
  ASSERT_TRUE(first.ok()) << first.status();
  Pass(absl::Seconds(14));
  EXPECT_EQ(scheduler_->Renew(lease->token())->token(), first->token());
  EXPECT_EQ(scheduler_->Renew(first->token())->token(), first->token());
  Pass(absl::Seconds(1));
  EXPECT_NE(scheduler_->Renew(lease->token())->token(), first->token());
}

TEST_P(SchedulerTest, ALeaseThatEndedIsNotRenewedFromMemory) {
  Tell(Report("a"));
  const auto revoked = Acquire(4);
  const auto released = Acquire(4);
  ASSERT_TRUE(scheduler_->Renew(revoked->token()).ok());
  ASSERT_TRUE(scheduler_->Renew(released->token()).ok());
  warpline_internal::RevokeRequest request;
  request.set_credential("operator");
  request.set_lease(revoked->lease());
  ASSERT_TRUE(scheduler_->Revoke(request).ok());
  ASSERT_TRUE(scheduler_->Release(released->token()).ok());
  EXPECT_EQ(scheduler_->Renew(revoked->token()).status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(scheduler_->Renew(released->token()).status().code(), Code::kFailedPrecondition);
}

TEST_P(SchedulerTest, ATenantsOwnLeasesDoNotHideWhatItsOperatorDoes) {
  LogCapture log;
  Tell(Report("a"));
  for (int i = 0; i < 250; ++i) {
    const auto lease = Acquire(1);
    ASSERT_TRUE(lease.ok()) << lease.status();
    ASSERT_TRUE(scheduler_->Release(lease->token()).ok());
    now_ += absl::Seconds(1);
    Tell(Report("a"));
  }
  warpline_internal::RevokeRequest request;
  request.set_credential("operator");
  request.set_lease(Acquire(1)->lease());
  ASSERT_TRUE(scheduler_->Revoke(request).ok());
  EXPECT_THAT(log.LinesWith("ended lease=" + request.lease()), SizeIs(1));
}

TEST_P(SchedulerTest, ATenantThatCallsWithoutEndIsRefusedAndOthersAreNot) {
  const std::string vision = AddTenant("vision", 0, 0, 0);
  const std::string speech = AddTenant("speech", 0, 0, 0);
  Tell(Report("a"));
  const auto lease = Acquire(1, vision);
  ASSERT_TRUE(lease.ok()) << lease.status();
  int renewed = 0;
  while (renewed < 10000 && scheduler_->Renew(lease->token()).ok()) ++renewed;
  EXPECT_EQ(renewed, 499);
  EXPECT_EQ(Acquire(1, vision).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(Acquire(1, speech).ok());
  // What it has it can give back, and after a while it may call again.
  Pass(absl::Seconds(1));
  EXPECT_TRUE(scheduler_->Renew(lease->token()).ok());
  EXPECT_TRUE(scheduler_->Release(lease->token()).ok());
}

TEST_P(SchedulerTest, SessionsKeepTheirLease) {
  Tell(Report("a"));
  const auto lease = Acquire(4, "", /*by_sessions=*/true);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Tell(WithSessions(Report("a"), lease->lease())).ended_size(), 0);
    Pass(absl::Seconds(20));
  }
  ServerReport report = Report("a");
  report.add_idle_leases(lease->lease());
  Tell(report);
  EXPECT_EQ(scheduler_->Leases("operator")->leases_size(), 0);
}

TEST_P(SchedulerTest, LeaseOfALostServerWaitsForItsReturn) {
  Tell(Report("a"));
  const auto lease = Acquire(4, "", /*by_sessions=*/true);
  Pass(absl::Minutes(10));
  EXPECT_EQ(scheduler_->Servers("operator")->servers(0).state(), "lost");
  EXPECT_EQ(Acquire(1).status().code(), Code::kUnavailable);
  EXPECT_EQ(Tell(WithSessions(Report("a"), lease->lease())).ended_size(), 0);
  EXPECT_EQ(scheduler_->Servers("operator")->servers(0).state(), "up");
  Pass(absl::Minutes(1));
  Pass(absl::Minutes(60));
  EXPECT_EQ(scheduler_->Servers("operator")->servers_size(), 0);
  const ReportReply reply = Tell(WithSessions(Report("a"), lease->lease()));
  EXPECT_EQ(reply.ended_size(), 1);
}

// A scheduler that was busy hears of nobody for a while. The server is not lost yet, but nothing is
// known of its sessions since the lease expired.
TEST_P(SchedulerTest, LeaseWithSessionsIsKeptUntilItsServerReportsWithoutThem) {
  lost_after_ = absl::Minutes(2);
  Restart();
  Tell(Report("a"));
  const auto lease = Acquire(16, "", /*by_sessions=*/true);
  ASSERT_TRUE(lease.ok()) << lease.status();
  Tell(WithSessions(Report("a"), lease->lease()));
  Pass(absl::Seconds(61));
  EXPECT_FALSE(Acquire(1).ok());
  EXPECT_EQ(Tell(WithSessions(Report("a"), lease->lease())).ended_size(), 0);
  // The next one to lead has not been told of any session.
  Restart();
  Pass(absl::Seconds(61));
  EXPECT_EQ(Tell(WithSessions(Report("a"), lease->lease())).ended_size(), 0);
  EXPECT_FALSE(Acquire(1).ok());
  Pass(absl::Seconds(61));
  EXPECT_FALSE(Acquire(1).ok());
  Tell(Report("a"));
  scheduler_->Housekeep();
  EXPECT_TRUE(Acquire(16).ok());
}

TEST_P(SchedulerTest, DrainingServerGetsNoLeases) {
  ServerReport report = Report("a");
  report.set_draining(true);
  Tell(report);
  EXPECT_EQ(Acquire(1).status().code(), Code::kUnavailable);
  EXPECT_EQ(scheduler_->Servers("operator")->servers(0).state(), "draining");
}

TEST_P(SchedulerTest, RevokedLeaseEndsWithItsReason) {
  Tell(Report("a"));
  const auto lease = Acquire(4);
  warpline_internal::RevokeRequest request;
  request.set_lease(lease->lease());
  request.set_reason("maintenance");
  EXPECT_EQ(scheduler_->Revoke(request).code(), Code::kUnauthenticated);
  request.set_credential("operator");
  ASSERT_TRUE(scheduler_->Revoke(request).ok());
  const ReportReply reply = Tell(WithSessions(Report("a"), lease->lease()));
  ASSERT_EQ(reply.ended_size(), 1);
  EXPECT_THAT(reply.ended(0).reason(), HasSubstr("maintenance"));
  EXPECT_EQ(EndCauseOf(reply.ended(0).cause()), EndCause::kRevoked);
  EXPECT_THAT(std::string(scheduler_->Renew(lease->token()).status().message()),
              HasSubstr("maintenance"));
  request.set_lease("none");
  EXPECT_EQ(scheduler_->Revoke(request).code(), Code::kNotFound);
}

TEST_P(SchedulerTest, TenantsNeedTheirCredentialAndKeepTheirLimits) {
  Tell(Report("a"));
  const std::string vision = AddTenant("vision", 6, 2, 0);
  const std::string speech = AddTenant("speech", 0, 1, 0);
  EXPECT_EQ(Acquire(1).status().code(), Code::kUnauthenticated);
  EXPECT_EQ(Acquire(1, "guess").status().code(), Code::kUnauthenticated);
  EXPECT_TRUE(Acquire(4, vision).ok());
  EXPECT_EQ(Acquire(3, vision).status().code(), Code::kResourceExhausted);
  // A request without a size gets what is left.
  EXPECT_EQ(Acquire(0, vision)->memory_bytes(), 2 * kGiB);
  EXPECT_THAT(std::string(Acquire(1, vision).status().message()), HasSubstr("limit"));
  EXPECT_TRUE(Acquire(1, speech).ok());
  EXPECT_EQ(Acquire(1, speech).status().code(), Code::kResourceExhausted);
}

TEST_P(SchedulerTest, RemovedTenantLosesItsLeases) {
  Tell(Report("a"));
  const std::string credential = AddTenant("vision", 0, 0, 0);
  AddTenant("other", 0, 0, 0);
  const auto lease = Acquire(4, credential);
  warpline_internal::TenantRequest request;
  request.set_name("vision");
  EXPECT_EQ(scheduler_->RemoveTenant(request).code(), Code::kUnauthenticated);
  request.set_credential("operator");
  ASSERT_TRUE(scheduler_->RemoveTenant(request).ok());
  EXPECT_EQ(scheduler_->RemoveTenant(request).code(), Code::kNotFound);
  EXPECT_EQ(Acquire(1, credential).status().code(), Code::kUnauthenticated);
  EXPECT_EQ(Tell(WithSessions(Report("a"), lease->lease())).ended_size(), 1);
}

TEST_P(SchedulerTest, NewCredentialReplacesTheOld) {
  Tell(Report("a"));
  const std::string old = AddTenant("vision", 0, 0, 0);
  warpline_internal::TenantRequest request;
  request.set_credential("operator");
  request.set_name("vision");
  request.set_new_credential(true);
  const std::string fresh = scheduler_->PutTenant(request)->credential();
  EXPECT_FALSE(Acquire(1, old).ok());
  EXPECT_TRUE(Acquire(1, fresh).ok());
  request.set_name("bad name\n");
  EXPECT_EQ(scheduler_->PutTenant(request).status().code(), Code::kInvalidArgument);
}

TEST_P(SchedulerTest, LeaseEndsWhenItsTenantsTimeIsOverWhoeverRenewsIt) {
  Tell(Report("a"));
  const std::string credential = AddTenant("vision", 0, 0, 90);
  const auto lease = Acquire(4, credential);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(scheduler_->Renew(lease->token()).ok());
    Pass(absl::Seconds(29));
  }
  Tell(WithSessions(Report("a"), lease->lease()));
  Pass(absl::Seconds(4));
  EXPECT_EQ(scheduler_->Renew(lease->token()).status().code(), Code::kFailedPrecondition);
}

TEST_P(SchedulerTest, RestartForgetsNothing) {
  Tell(Report("a"));
  const std::string credential = AddTenant("vision", 0, 0, 0);
  const auto lease = Acquire(16, credential);
  // The scheduler was down for longer than a lease lasts.
  now_ += absl::Minutes(10);
  Restart();
  scheduler_->Housekeep();
  EXPECT_EQ(Acquire(1, credential).status().code(), Code::kUnavailable);
  EXPECT_EQ(Tell(WithSessions(Report("a"), lease->lease())).ended_size(), 0);
  EXPECT_TRUE(scheduler_->Renew(lease->token()).ok());
  EXPECT_EQ(Acquire(1, credential).status().code(), Code::kResourceExhausted);
}

TEST_P(SchedulerTest, ServersNeedTheirOwnCredentialOnceThereAreTenantsOrServers) {
  EXPECT_TRUE(scheduler_->Report(Report("c"), /*local=*/true).ok());
  EXPECT_EQ(scheduler_->Report(Report("c"), /*local=*/false).status().code(),
            Code::kUnauthenticated);
  AddServer("a");
  EXPECT_EQ(scheduler_->Report(Report("c"), /*local=*/true).status().code(),
            Code::kUnauthenticated);
  AddServer("b");
  ServerReport report = WithCredential(Report("a"));
  EXPECT_TRUE(scheduler_->Report(report, /*local=*/false).ok());
  // Another server's credential is of no use.
  report.set_credential(servers_["b"]);
  EXPECT_EQ(scheduler_->Report(report, /*local=*/true).status().code(), Code::kUnauthenticated);
  report.set_credential("operator");
  EXPECT_EQ(scheduler_->Report(report, /*local=*/true).status().code(), Code::kUnauthenticated);
  report.clear_credential();
  EXPECT_EQ(scheduler_->Report(report, /*local=*/true).status().code(), Code::kUnauthenticated);
}

TEST_P(SchedulerTest, NamesThatSomethingElseReadsOtherwiseAreNotGiven) {
  warpline_internal::TenantRequest tenant;
  tenant.set_credential("operator");
  tenant.set_create(true);
  for (const char* name : {".", "..", "any", "none", "all", "local", "-x", "a/b", ""}) {
    tenant.set_name(name);
    EXPECT_EQ(scheduler_->PutTenant(tenant).status().code(), Code::kInvalidArgument) << name;
  }
  for (const char* name : {".", "..", "any", "none", "all", "-x", "a/b", ""}) {
    EXPECT_EQ(scheduler_->PutServer(ServerNamed(name, true)).status().code(),
              Code::kInvalidArgument)
        << name;
    EXPECT_EQ(scheduler_->Report(Report(name), /*local=*/true).status().code(),
              Code::kInvalidArgument)
        << name;
  }
}

TEST_P(SchedulerTest, OfTwoServersWithOneNameOneIsRefusedWithWords) {
  AddServer("a");
  ServerReport first = Report("a");
  first.set_instance(1);
  ServerReport second = Report("a");
  second.set_instance(2);
  second.set_endpoint("copy:14000");
  Tell(first);
  const LogCapture log;
  for (int i = 0; i < 100; ++i) {
    const auto refused = scheduler_->Report(WithCredential(second), false);
    EXPECT_EQ(refused.status().code(), Code::kAlreadyExists);
    EXPECT_THAT(refused.status().message(), HasSubstr("by the name of a, from a:14000"));
    EXPECT_THAT(refused.status().message(), HasSubstr("give this one another --name"));
    Tell(first);
  }
  EXPECT_EQ(scheduler_->Servers("operator")->servers(0).endpoint(), "a:14000");
  EXPECT_EQ(scheduler_->Counts().duplicates, 100u);
  const std::string said = "refused another server=a endpoint=\"copy:14000\"";
  EXPECT_THAT(log.Text(), HasSubstr(said));
  size_t lines = 0;
  for (size_t at = 0; (at = log.Text().find(said, at)) != std::string::npos; ++at) ++lines;
  EXPECT_LE(lines, 4u);
  EXPECT_THAT(log.Text(), Not(HasSubstr("changed server=a")));
  // Once the former one says goodbye, or is silent, it is taken.
  first.set_goodbye(true);
  Tell(first);
  Tell(second);
  EXPECT_EQ(scheduler_->Servers("operator")->servers(0).endpoint(), "copy:14000");
  first.set_goodbye(false);
  EXPECT_EQ(scheduler_->Report(WithCredential(first), false).status().code(), Code::kAlreadyExists);
  Pass(lost_after_);
  Tell(first);
}

TEST_P(SchedulerTest, RenewedCredentialOfAServerReplacesTheOld) {
  AddServer("a");
  const ServerReport old = WithCredential(Report("a"));
  EXPECT_EQ(scheduler_->PutServer(ServerNamed("a", true)).status().code(), Code::kAlreadyExists);
  EXPECT_EQ(scheduler_->PutServer(ServerNamed("b", false)).status().code(), Code::kNotFound);
  EXPECT_EQ(scheduler_->PutServer(ServerNamed("a b", true)).status().code(),
            Code::kInvalidArgument);
  auto request = ServerNamed("b", true);
  request.set_credential("guess");
  EXPECT_EQ(scheduler_->PutServer(request).status().code(), Code::kUnauthenticated);
  EXPECT_EQ(scheduler_->RemoveServer(request).code(), Code::kUnauthenticated);
  AddServer("a", /*create=*/false);
  EXPECT_FALSE(scheduler_->Report(old, true).ok());
  Tell(Report("a"));
  Restart();
  Tell(Report("a"));
}

TEST_P(SchedulerTest, RemovedServerLosesLeasesAndCredential) {
  AddServer("a");
  EXPECT_EQ(scheduler_->Servers("operator")->servers(0).state(), "added");
  Tell(Report("a"));
  const auto lease = Acquire(4);
  ASSERT_TRUE(lease.ok()) << lease.status();
  ASSERT_TRUE(scheduler_->RemoveServer(ServerNamed("a", false)).ok());
  EXPECT_EQ(scheduler_->RemoveServer(ServerNamed("a", false)).code(), Code::kNotFound);
  EXPECT_THAT(std::string(scheduler_->Renew(lease->token()).status().message()),
              HasSubstr("server was removed"));
  EXPECT_EQ(scheduler_->Servers("operator")->servers_size(), 0);
  EXPECT_FALSE(scheduler_->Report(WithCredential(Report("a")), true).ok());
  EXPECT_EQ(Acquire(4).status().code(), Code::kUnavailable);
}

TEST_P(SchedulerTest, SessionsOfAllLeasesOfATenantAreBounded) {
  warpline_internal::TenantRequest limits;
  limits.set_max_sessions(8);
  limits.set_max_lease_sessions(6);
  const std::string vision = AddTenant("vision", 0, 0, 0, limits);
  Tell(Report("a"));
  const auto sessions = [&](uint32_t wanted, bool by_sessions) -> absl::StatusOr<uint32_t> {
    AcquireRequest request;
    request.set_memory_bytes(kGiB);
    request.set_credential(vision);
    request.set_sessions(wanted);
    const auto lease = scheduler_->Acquire(request, by_sessions, true);
    if (!lease.ok()) return lease.status();
    return lease->max_sessions();
  };
  EXPECT_EQ(sessions(7, false).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(sessions(0, false).value(), 2u);  // A quarter.
  EXPECT_EQ(sessions(4, false).value(), 4u);
  EXPECT_EQ(sessions(3, false).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(sessions(0, true).value(), 1u);
  EXPECT_EQ(sessions(0, false).value(), 1u);  // What is left.
  EXPECT_THAT(std::string(sessions(0, true).status().message()), HasSubstr("hold 8"));
  const auto shown = scheduler_->Tenants("operator")->tenants(0);
  EXPECT_EQ(shown.leased_sessions(), 8u);
  EXPECT_EQ(shown.max_sessions(), 8u);
}

TEST_P(SchedulerTest, TokenGivesItsTenantsRightsAndLimitsOfTheMoment) {
  warpline_internal::TenantRequest change;
  change.set_rights(RightOf(Capability::kLaunch) | RightOf(Capability::kMemory));
  const std::string vision = AddTenant("vision", 0, 0, 0, change);
  const ReportReply keys = Tell(Report("a"));
  const auto token = [&](const std::string& text) {
    return OpenToken(text, {{keys.keys(0).id(), keys.keys(0).key()}}).value();
  };
  const auto lease = Acquire(4, vision);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(token(lease->token()).rights,
            RightOf(Capability::kLaunch) | RightOf(Capability::kMemory));
  EXPECT_EQ(token(lease->token()).max_sessions, 64u);
  change.set_credential("operator");
  change.set_name("vision");
  change.set_rights(kKnownRights + 1);
  EXPECT_EQ(scheduler_->PutTenant(change).status().code(), Code::kInvalidArgument);
  change.set_rights(kAllRights);
  change.set_max_lease_sessions(3);
  ASSERT_TRUE(scheduler_->PutTenant(change).ok());
  Restart();
  const auto renewed = scheduler_->Renew(lease->token());
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(token(renewed->token()).rights, kAllRights);
  EXPECT_EQ(token(renewed->token()).max_sessions, 3u);
}

TEST_P(SchedulerTest, TokenGivesItsTenantsWeights) {
  warpline_internal::TenantRequest change;
  change.set_weight(3);
  change.set_copy_weight(2);
  change.set_priority(5);
  const std::string vision = AddTenant("vision", 0, 0, 0, change);
  const ReportReply keys = Tell(Report("a"));
  const auto slice = [&](const std::string& text) {
    return OpenToken(text, {{keys.keys(0).id(), keys.keys(0).key()}}).value().slice;
  };
  const auto first = Acquire(1, vision);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(slice(first->token()).weight, 3u);
  EXPECT_EQ(slice(first->token()).copy_weight, 2u);
  EXPECT_EQ(slice(first->token()).priority, 5);
  change.set_credential("operator");
  change.set_name("vision");
  for (const uint32_t wrong : {0u, 1001u}) {
    change.set_weight(wrong);
    EXPECT_EQ(scheduler_->PutTenant(change).status().code(), Code::kInvalidArgument) << wrong;
  }
  change.set_weight(10);
  ASSERT_TRUE(scheduler_->PutTenant(change).ok());
  Restart();
  EXPECT_EQ(slice(scheduler_->Renew(first->token())->token()).weight, 10u);
  EXPECT_EQ(scheduler_->Tenants("operator")->tenants(0).weight(), 10u);
}

TEST_P(SchedulerTest, TokenGivesItsTenantsTiersAndTheLeaseWhatNobodyNames) {
  warpline_internal::TenantRequest change;
  change.set_tiers(SetOf(Tier::kIsolated));
  const std::string vision = AddTenant("vision", 0, 0, 0, change);
  const ReportReply keys = Tell(Report("a"));
  const auto token = [&](const std::string& text) {
    return OpenToken(text, {{keys.keys(0).id(), keys.keys(0).key()}}).value();
  };
  const auto first = Acquire(1, vision);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(token(first->token()).tiers, SetOf(Tier::kIsolated));
  EXPECT_EQ(first->tier(), static_cast<uint32_t>(TierChoice::kIsolated));
  change.set_credential("operator");
  change.set_name("vision");
  for (const TierSet wrong : {TierSet{0}, kKnownTiers + 1, TierSet{1} << 63}) {
    change.set_tiers(wrong);
    EXPECT_EQ(scheduler_->PutTenant(change).status().code(), Code::kInvalidArgument) << wrong;
  }
  // What nobody names has to be one that it may have.
  change.set_tiers(SetOf(Tier::kGuarded));
  EXPECT_THAT(std::string(scheduler_->PutTenant(change).status().message()), HasSubstr("--tier"));
  change.set_tier(7);
  EXPECT_EQ(scheduler_->PutTenant(change).status().code(), Code::kInvalidArgument);
  change.set_tiers(kAllTiers);
  change.set_tier(static_cast<uint32_t>(TierChoice::kAuto));
  ASSERT_TRUE(scheduler_->PutTenant(change).ok());
  Restart();
  const auto renewed = scheduler_->Renew(first->token());
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(token(renewed->token()).tiers, kAllTiers);
  EXPECT_EQ(renewed->tier(), static_cast<uint32_t>(TierChoice::kAuto));
  const auto shown = scheduler_->Tenants("operator")->tenants(0);
  EXPECT_EQ(shown.tiers(), kAllTiers);
  EXPECT_EQ(shown.tier(), static_cast<uint32_t>(TierChoice::kAuto));
}

TEST_P(SchedulerTest, ClockThatWasAheadBeforeARestartKeepsNoLeaseForLonger) {
  Tell(Report("a"));
  const auto lease = Acquire(16);
  ASSERT_TRUE(lease.ok());
  now_ -= absl::Hours(48);
  Restart();
  for (int i = 0; i < 62; ++i) {
    Tell(Report("a"));
    Pass(absl::Seconds(1));
  }
  EXPECT_TRUE(Acquire(16).ok());
}

TEST_P(SchedulerTest, AnswersToReportsSayWhatTimeItIs) {
  EXPECT_EQ(Tell(Report("a")).now_unix_ms(), absl::ToUnixMillis(now_));
}

TEST_P(SchedulerTest, StrangersOfOtherHostsGetNothing) {
  Tell(Report("a"));
  EXPECT_EQ(scheduler_->Acquire(AcquireRequest(), false, /*local=*/false).status().code(),
            Code::kUnauthenticated);
  EXPECT_FALSE(scheduler_->Tenants("").ok());
  EXPECT_FALSE(scheduler_->Leases("guess").ok());
  EXPECT_FALSE(scheduler_->Servers("").ok());
  EXPECT_FALSE(StatOf("", "").ok());
  EXPECT_TRUE(scheduler_->Servers("operator").ok());
}

TEST_P(SchedulerTest, OversizedAndForgedRequestsAreRefused) {
  Tell(Report("a"));
  AcquireRequest request;
  request.set_program(std::string(1000, 'x'));
  EXPECT_EQ(scheduler_->Acquire(request, false, true).status().code(), Code::kInvalidArgument);
  request.set_program("x");
  request.set_memory_bytes(~uint64_t{0});
  EXPECT_EQ(scheduler_->Acquire(request, false, true).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(scheduler_->Renew("garbage").status().code(), Code::kUnauthenticated);
  EXPECT_EQ(scheduler_->Release(std::string(100000, 'A')).code(), Code::kUnauthenticated);
  LeaseToken forged;
  forged.lease = Acquire(1)->lease();
  forged.expires = now_ + absl::Hours(1);
  const std::string token = SignToken(SigningKey::Generate().value(), forged).value();
  EXPECT_EQ(scheduler_->Renew(token).status().code(), Code::kUnauthenticated);
  ServerReport report = Report("a");
  report.mutable_devices(0)->set_uuid("no uuid");
  EXPECT_EQ(scheduler_->Report(report, false).status().code(), Code::kInvalidArgument);
  report = Report("");
  EXPECT_EQ(scheduler_->Report(report, false).status().code(), Code::kInvalidArgument);
  report = Report("a");
  for (int i = 0; i < 100; ++i) *report.add_devices() = report.devices(0);
  EXPECT_EQ(scheduler_->Report(report, false).status().code(), Code::kInvalidArgument);
}

TEST_P(SchedulerTest, AnotherServersLeaseIsNotItsOwn) {
  Tell(Report("a"));
  const auto lease = Acquire(4);
  Tell(Report("b"));
  EXPECT_EQ(Tell(WithSessions(Report("b"), lease->lease())).ended_size(), 1);
  ServerReport report = Report("b");
  report.add_idle_leases(lease->lease());
  Tell(report);
  EXPECT_TRUE(scheduler_->Renew(lease->token()).ok());
}

TEST_P(SchedulerTest, SessionsOfAllServersAreShown) {
  for (const char* name : {"a", "b"}) {
    ServerReport report = Report(name);
    report.add_sessions()->set_program("train");
    Tell(report);
  }
  const auto stat = StatOf("operator", "");
  ASSERT_EQ(stat->sessions_size(), 2);
  EXPECT_EQ(stat->sessions(0).server(), "a");
  EXPECT_EQ(stat->sessions(1).server(), "b");
  EXPECT_EQ(stat->devices_size(), 2);
}

TEST_P(SchedulerTest, TrialLeasesEndWithTheFirstTenant) {
  Tell(Report("a"));
  const auto lease = Acquire(4);
  ASSERT_TRUE(lease.ok()) << lease.status();
  AddTenant("vision", 0, 0, 0);
  EXPECT_EQ(scheduler_->Renew(lease->token()).status().code(), Code::kFailedPrecondition);
}

TEST_P(SchedulerTest, ServersAreToldOfLeasesThatEndedWithoutSessions) {
  ServerReport report = Report("a");
  report.set_heard(true);
  Tell(report);
  const auto lease = Acquire(4);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(Tell(report).ended_size(), 0);
  warpline_internal::RevokeRequest request;
  request.set_credential("operator");
  request.set_lease(lease->lease());
  ASSERT_TRUE(scheduler_->Revoke(request).ok());
  ASSERT_EQ(Tell(report).ended_size(), 1);
  EXPECT_EQ(Tell(report).ended_size(), 0);
  // A server that began anew, or whose last report had no answer.
  report.set_heard(false);
  EXPECT_EQ(Tell(report).ended_size(), 1);
  Restart();
  report.set_heard(true);
  EXPECT_EQ(Tell(report).ended_size(), 1);
}

TEST_P(SchedulerTest, AReportThatIsSentTwiceDoesNotAcknowledgeItsFirstAnswer) {
  ServerReport report = Report("a");
  report.set_instance(7);
  report.set_heard(true);
  report.set_number(1);
  Tell(report);
  const auto lease = Acquire(4);
  ASSERT_TRUE(lease.ok()) << lease.status();
  warpline_internal::RevokeRequest request;
  request.set_credential("operator");
  request.set_lease(lease->lease());
  ASSERT_TRUE(scheduler_->Revoke(request).ok());
  report.set_number(2);
  ASSERT_EQ(Tell(report).ended_size(), 1);
  // Each answer to the report may be the one that arrives.
  EXPECT_EQ(Tell(report).ended_size(), 1);
  EXPECT_EQ(Tell(report).ended_size(), 1);
  report.set_number(3);
  EXPECT_EQ(Tell(report).ended_size(), 0);
  // The one before comes late.
  report.set_number(2);
  EXPECT_EQ(Tell(report).ended_size(), 1);
  // A number that follows is no other process's.
  report.set_number(3);
  report.set_instance(8);
  EXPECT_EQ(Tell(report).ended_size(), 1);
}

TEST_P(SchedulerTest, TheAnchorOfAServersAuditSurvivesARestart) {
  const auto head = [](uint64_t records) {
    return absl::StrCat(records, ":", std::string(64, static_cast<char>('a' + records % 6)));
  };
  const auto report = [&](uint64_t records) {
    ServerReport told = Report("a");
    if (records > 0) told.set_audit_head(head(records));
    return told;
  };
  const auto shown = [&] {
    const auto list = scheduler_->Servers("operator");
    EXPECT_TRUE(list.ok() && list->servers_size() == 1) << list.status();
    return list.ok() && list->servers_size() == 1 ? list->servers(0) : warpline_internal::Server();
  };
  AddServer("a");
  Tell(report(40));
  Restart();
  EXPECT_EQ(shown().audit_head(), head(40));
  // A server that is silent for long keeps its anchor, too.
  Pass(absl::Seconds(10));
  Pass(absl::Hours(2));
  EXPECT_EQ(shown().state(), "added");
  EXPECT_EQ(shown().audit_head(), head(40));
  LogCapture log;
  Tell(report(0));
  EXPECT_THAT(log.Text(), HasSubstr("the audit of server=a lost records: it had anchor=40:"));
  EXPECT_EQ(shown().audit_head(), head(40));
  EXPECT_EQ(shown().audit_lost(), "");
  Tell(report(41));
  EXPECT_EQ(shown().audit_lost(), "");
  Tell(report(7));
  Tell(report(50));
  Restart();
  EXPECT_EQ(shown().audit_head(), head(50));
  EXPECT_EQ(shown().audit_lost(), head(41));
  AddServer("a", /*create=*/false);
  EXPECT_EQ(shown().audit_lost(), "");
  Restart();
  EXPECT_EQ(shown().audit_lost(), "");
}

TEST_P(SchedulerTest, ATokenIsRenewedForTheCertificateThatItIsForOnly) {
  const ReportReply keys = Tell(Report("a"));
  const CertificateHolder alice = HolderOf("ipv4:10.0.0.7:5 cn=alice cert=00ff");
  const CertificateHolder mallory = HolderOf("ipv4:10.0.0.8:5 cn=mallory cert=1234");
  const auto lease = scheduler_->Acquire(AcquireRequest(), false, true, alice);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(scheduler_->Renew(lease->token(), mallory).status().code(), Code::kUnauthenticated);
  EXPECT_EQ(scheduler_->Release(lease->token(), mallory).code(), Code::kUnauthenticated);
  EXPECT_TRUE(scheduler_->Renew(lease->token(), alice).ok());
  // Nor is another one answered from memory; who is alice with a new certificate gets a new token.
  EXPECT_EQ(scheduler_->Renew(lease->token(), mallory).status().code(), Code::kUnauthenticated);
  const CertificateHolder alice_anew = HolderOf("ipv4:10.0.0.7:5 cn=alice cert=11ff");
  const auto followed = scheduler_->Renew(lease->token(), alice_anew);
  ASSERT_TRUE(followed.ok()) << followed.status();
  const auto followed_token =
      OpenToken(followed->token(), {{keys.keys(0).id(), keys.keys(0).key()}});
  ASSERT_TRUE(followed_token.ok());
  EXPECT_EQ(followed_token->holder.certificate, "11ff");
}

TEST_P(SchedulerTest, ATenantIsShownItsOwnSessions) {
  const std::string vision = AddTenant("vision", 0, 0, 0);
  AddTenant("speech", 0, 0, 0);
  ServerReport report = Report("a");
  report.add_sessions()->set_tenant("vision");
  report.add_sessions()->set_tenant("speech");
  Tell(report);
  const auto stat = StatOf("", vision);
  ASSERT_TRUE(stat.ok()) << stat.status();
  ASSERT_EQ(stat->sessions_size(), 1);
  EXPECT_EQ(stat->sessions(0).tenant(), "vision");
  EXPECT_EQ(stat->devices_size(), 0);
  EXPECT_FALSE(StatOf("", "guess").ok());
}

INSTANTIATE_TEST_SUITE_P(States, SchedulerTest, kStateKinds, StateKindName);

}  // namespace
}  // namespace warpline::scheduler
