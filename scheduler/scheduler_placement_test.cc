// Requests that wait, gangs, servers that are drained, tenants that nest, and leases that have to
// end for others.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log/log_capture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lease/token.h"
#include "scheduler/placement/replay.h"
#include "scheduler/scheduler_fixture.h"

namespace warpline::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Code = absl::StatusCode;

class SchedulerPlacementTest : public SchedulerTest {
 protected:
  AcquireRequest Want(uint64_t gib, const std::string& ticket, const std::string& credential = "") {
    AcquireRequest request;
    request.set_memory_bytes(gib * kGiB);
    request.set_ticket(ticket);
    request.set_credential(credential);
    return request;
  }

  LeaseReply Ask(const AcquireRequest& request) {
    auto reply = scheduler_->Acquire(request, false, true);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.value_or(LeaseReply());
  }

  absl::Status Cordon(const std::string& server, bool cordoned, int64_t seconds = -1,
                      const std::string& reason = "") {
    warpline_internal::CordonRequest request;
    request.set_credential("operator");
    request.set_name(server);
    request.set_cordoned(cordoned);
    request.set_reason(reason);
    if (seconds >= 0) request.set_drained_in_ms(static_cast<uint64_t>(seconds) * 1000);
    return scheduler_->CordonServer(request);
  }

  absl::StatusOr<warpline_internal::TenantReply> PutTenant(const std::string& name,
                                                           const std::string& parent,
                                                           bool create = true) {
    warpline_internal::TenantRequest request;
    request.set_credential("operator");
    request.set_name(name);
    request.set_parent(parent);
    request.set_create(create);
    return scheduler_->PutTenant(request);
  }

  // Servers that report go on to do so.
  void PassReporting(absl::Duration time) {
    for (absl::Duration passed; passed < time; passed += absl::Seconds(2)) {
      for (const auto& report : reporting_) Tell(report);
      Pass(absl::Seconds(2));
    }
  }

  std::vector<ServerReport> reporting_;
};

TEST_P(SchedulerPlacementTest, WhoWaitsGetsALeaseWhenThereIsRoom) {
  Tell(Report("a"));
  const auto first = Acquire(16);
  ASSERT_TRUE(first.ok());
  const LeaseReply waits = Ask(Want(10, "k"));
  EXPECT_TRUE(waits.has_waiting());
  EXPECT_TRUE(waits.token().empty());
  EXPECT_EQ(waits.waiting().position(), 1u);
  EXPECT_THAT(waits.waiting().reason(), HasSubstr("10240 MiB wanted"));
  EXPECT_GE(waits.waiting().ask_again_ms(), 100u);
  EXPECT_EQ(scheduler_->Counts().waiting, 1u);
  EXPECT_EQ(scheduler_->Tenants("operator")->tenants(0).waiting(), 1u);
  const auto counts = scheduler_->TenantCounts(10);
  ASSERT_FALSE(counts.empty());
  EXPECT_EQ(counts[0].waiting, 1u);
  EXPECT_EQ(counts[0].leases, scheduler_->Tenants("operator")->tenants(0).leases());
  EXPECT_TRUE(scheduler_->TenantCounts(0).empty());
  ASSERT_TRUE(scheduler_->Release(first->token()).ok());
  // Nobody gets in between.
  EXPECT_EQ(Acquire(10).status().code(), Code::kResourceExhausted);
  const LeaseReply granted = Ask(Want(10, "k"));
  EXPECT_FALSE(granted.has_waiting());
  EXPECT_EQ(granted.memory_bytes(), 10 * kGiB);
  EXPECT_EQ(scheduler_->Leases("operator")->leases_size(), 2);
  EXPECT_EQ(scheduler_->Counts().waiting, 0u);
}

TEST_P(SchedulerPlacementTest, ARevokedTenantLosesItsLeasesAndThoseOfAllBelowItAndNoOthers) {
  Tell(Report("a"));
  // A tree of three levels, and a tenant beside it whose name begins alike.
  std::map<std::string, std::string> leases;
  std::map<std::string, std::string> credentials;
  for (const auto& [name, parent] :
       {std::pair("lab", ""), std::pair("lab-a", "lab"), std::pair("deep", "lab-a"),
        std::pair("lab-b", "lab"), std::pair("labor", "")}) {
    const auto added = PutTenant(name, parent);
    ASSERT_TRUE(added.ok()) << added.status();
    credentials[name] = added->credential();
  }
  AddServer("a");
  Tell(Report("a"));
  for (const auto& [name, credential] : credentials) {
    const auto lease = Acquire(1, credential);
    ASSERT_TRUE(lease.ok()) << name << lease.status();
    leases[name] = lease->lease();
  }
  const auto revoke = [&](const std::string& tenant, const std::string& lease = "") {
    warpline_internal::RevokeRequest request;
    request.set_credential("operator");
    request.set_tenant(tenant);
    request.set_lease(lease);
    return scheduler_->Revoke(request).code();
  };
  const auto active = [&] {
    std::set<std::string> names;
    const auto list = scheduler_->Leases("operator");
    for (const auto& lease : list->leases()) {
      if (lease.state() == "active") names.insert(lease.tenant());
    }
    return names;
  };
  EXPECT_EQ(revoke(""), Code::kInvalidArgument);
  EXPECT_EQ(revoke("lab", leases["lab"]), Code::kInvalidArgument);
  EXPECT_EQ(revoke("nobody"), Code::kNotFound);
  EXPECT_EQ(active().size(), 5u);
  EXPECT_EQ(revoke("lab-a"), Code::kOk);
  EXPECT_EQ(active(), (std::set<std::string>{"lab", "lab-b", "labor"}));
  EXPECT_EQ(revoke("lab"), Code::kOk);
  EXPECT_EQ(active(), (std::set<std::string>{"labor"}));
  // It takes leases and not the right to have some.
  EXPECT_TRUE(Acquire(1, credentials["deep"]).ok());
}

TEST_P(SchedulerPlacementTest, TheOnlySessionOfATenantIsWaitedForAndGot) {
  warpline_internal::TenantRequest one;
  one.set_max_sessions(1);
  const std::string credential = AddTenant("t", 0, 0, 0, one);
  Tell(Report("a"));
  const std::string other = AddTenant("u", 0, 0, 0);
  const auto first = Acquire(16, other);
  EXPECT_TRUE(Ask(Want(10, "k", credential)).has_waiting());
  ASSERT_TRUE(scheduler_->Release(first->token()).ok());
  const LeaseReply granted = Ask(Want(10, "k", credential));
  EXPECT_FALSE(granted.has_waiting());
  EXPECT_EQ(granted.max_sessions(), 1u);
  EXPECT_EQ(scheduler_->Acquire(Want(1, "l", credential), false, true).status().code(),
            Code::kResourceExhausted);
  // Who says how many waits for those of the tenant's other leases.
  AcquireRequest named = Want(1, "l", credential);
  named.set_sessions(1);
  EXPECT_THAT(Ask(named).waiting().reason(), HasSubstr("may have 1 sessions"));
  ASSERT_TRUE(scheduler_->Release(granted.token()).ok());
  EXPECT_FALSE(Ask(named).has_waiting());
}

TEST_P(SchedulerPlacementTest, WhoWaitedAsksTheNextSchedulerAgain) {
  Tell(Report("a"));
  const auto first = Acquire(16);
  EXPECT_TRUE(Ask(Want(10, "k")).has_waiting());
  Restart();
  // Nothing is up yet, and the lease that there is counts all the same.
  EXPECT_TRUE(Ask(Want(10, "k")).has_waiting());
  Tell(Report("a"));
  EXPECT_TRUE(Ask(Want(10, "k")).has_waiting());
  ASSERT_TRUE(scheduler_->Release(first->token()).ok());
  EXPECT_FALSE(Ask(Want(10, "k")).has_waiting());
}

TEST_P(SchedulerPlacementTest, TheBeginningOfAUuidThatTwoServersReportNamesItsDevice) {
  for (const char* const name : {"one", "two"}) {
    AddServer(name);
    ServerReport report = Report(name);
    report.mutable_devices(0)->set_uuid("GPU-shared");
    Tell(report);
  }
  AcquireRequest request = Want(1, "");
  request.set_device("GPU-sha");
  EXPECT_EQ(Ask(request).device(), "GPU-shared");
}

TEST_P(SchedulerPlacementTest, WithdrawnRequestsWaitNoMore) {
  Tell(Report("a"));
  const auto first = Acquire(16);
  EXPECT_TRUE(Ask(Want(10, "k")).has_waiting());
  warpline_internal::WithdrawRequest withdrawal;
  withdrawal.set_ticket("k");
  EXPECT_EQ(scheduler_->Withdraw(withdrawal, /*local=*/false).code(), Code::kUnauthenticated);
  EXPECT_TRUE(scheduler_->Withdraw(withdrawal, /*local=*/true).ok());
  EXPECT_TRUE(scheduler_->Withdraw(withdrawal, /*local=*/true).ok());
  EXPECT_EQ(scheduler_->Counts().waiting, 0u);
  ASSERT_TRUE(scheduler_->Release(first->token()).ok());
  EXPECT_TRUE(Acquire(16).ok());
}

TEST_P(SchedulerPlacementTest, WhatIsMalformedOrWillNeverBeIsRefused) {
  Tell(Report("a"));
  EXPECT_EQ(scheduler_->Acquire(Want(17, "k"), false, true).status().code(),
            Code::kResourceExhausted);
  EXPECT_EQ(scheduler_->Acquire(Want(1, std::string(65, 'x')), false, true).status().code(),
            Code::kInvalidArgument);
  AcquireRequest gang = Want(1, "k");
  gang.set_members(2);
  EXPECT_EQ(scheduler_->Acquire(gang, false, true).status().code(), Code::kInvalidArgument);
  gang.set_gang("g");
  gang.set_members(1025);
  EXPECT_EQ(scheduler_->Acquire(gang, false, true).status().code(), Code::kInvalidArgument);
  gang.set_members(2);
  gang.clear_ticket();
  EXPECT_EQ(scheduler_->Acquire(gang, false, true).status().code(), Code::kInvalidArgument);
}

TEST_P(SchedulerPlacementTest, AGangGetsLeasesOnSeveralServersOrNone) {
  Tell(Report("a"));
  Tell(Report("b"));
  const auto other = Acquire(16);
  const auto member = [&](int i) {
    AcquireRequest request = Want(16, absl::StrCat("m", i));
    request.set_gang("training");
    request.set_members(2);
    return request;
  };
  const LeaseReply first = Ask(member(0));
  EXPECT_EQ(first.waiting().missing_members(), 1u);
  EXPECT_TRUE(Ask(member(1)).has_waiting());
  EXPECT_EQ(scheduler_->Leases("operator")->leases_size(), 1);
  ASSERT_TRUE(scheduler_->Release(other->token()).ok());
  const LeaseReply a = Ask(member(0));
  const LeaseReply b = Ask(member(1));
  EXPECT_FALSE(a.has_waiting());
  EXPECT_FALSE(b.has_waiting());
  EXPECT_NE(a.server(), b.server());
}

TEST_P(SchedulerPlacementTest, ACordonedServerGetsNoLeasesAlsoAfterARestart) {
  Tell(Report("a"));
  Tell(Report("b"));
  EXPECT_EQ(Cordon("nowhere", true).code(), Code::kNotFound);
  ASSERT_TRUE(Cordon("a", true, -1, "a fan is loud").ok());
  Restart();
  Tell(Report("a"));
  Tell(Report("b"));
  EXPECT_EQ(Acquire(10)->server(), "b");
  EXPECT_EQ(Acquire(10).status().code(), Code::kResourceExhausted);
  const auto servers = scheduler_->Servers("operator");
  EXPECT_EQ(servers->servers(0).state(), "cordoned");
  EXPECT_EQ(servers->servers(0).cordon_reason(), "a fan is loud");
  EXPECT_EQ(servers->servers(1).state(), "up");
  ASSERT_TRUE(Cordon("a", false).ok());
  EXPECT_EQ(Acquire(10)->server(), "a");
  warpline_internal::CordonRequest stranger;
  stranger.set_name("a");
  stranger.set_cordoned(true);
  EXPECT_EQ(scheduler_->CordonServer(stranger).code(), Code::kUnauthenticated);
}

TEST_P(SchedulerPlacementTest, ADrainedServersLeasesEndInTimeAndTheirHoldersAreTold) {
  Tell(Report("a"));
  const auto lease = Acquire(10);
  ASSERT_TRUE(lease.ok());
  reporting_ = {WithSessions(Report("a"), lease->lease())};
  ASSERT_TRUE(scheduler_->Renew(lease->token()).ok());
  ASSERT_TRUE(Cordon("a", true, 100, "new disks").ok());
  EXPECT_EQ(scheduler_->Servers("operator")->servers(0).state(), "draining");
  // Its holder hears of it at once, whatever it was told a moment ago.
  auto renewed = scheduler_->Renew(lease->token());
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_THAT(renewed->ends_reason(), HasSubstr("new disks"));
  EXPECT_GT(renewed->ends_in_ms(), 99000u);
  EXPECT_LE(renewed->ends_in_ms(), 100000u);
  // So does its server.
  const ReportReply told = Tell(reporting_[0]);
  ASSERT_EQ(told.ending_size(), 1);
  EXPECT_EQ(told.ending(0).lease(), lease->lease());
  EXPECT_THAT(told.ending(0).reason(), HasSubstr("new disks"));
  EXPECT_EQ(EndCauseOf(told.ending(0).cause()), EndCause::kDrained);
  PassReporting(absl::Seconds(98));
  EXPECT_EQ(scheduler_->Leases("operator")->leases(0).state(), "active");
  // Another scheduler ends it as well.
  Restart();
  PassReporting(absl::Seconds(4));
  const auto over = scheduler_->Leases("operator");
  EXPECT_EQ(over->leases(0).state(), "revoked");
  EXPECT_THAT(over->leases(0).reason(), HasSubstr("new disks"));
  EXPECT_EQ(scheduler_->Counts().preempted, 1u);
  renewed = scheduler_->Renew(lease->token());
  EXPECT_EQ(renewed.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(renewed.status().message(), HasSubstr("new disks"));
}

TEST_P(SchedulerPlacementTest, UncordoningTakesNoticesBack) {
  Tell(Report("a"));
  const auto lease = Acquire(10);
  ASSERT_TRUE(Cordon("a", true, 10).ok());
  EXPECT_FALSE(scheduler_->Renew(lease->token())->ends_reason().empty());
  ASSERT_TRUE(Cordon("a", false).ok());
  EXPECT_TRUE(scheduler_->Renew(lease->token())->ends_reason().empty());
  reporting_ = {WithSessions(Report("a"), lease->lease())};
  PassReporting(absl::Seconds(20));
  EXPECT_EQ(scheduler_->Leases("operator")->leases(0).state(), "active");
}

TEST_P(SchedulerPlacementTest, HigherPriorityEndsALeaseAfterNotice) {
  placement_.preemption = true;
  placement_.notice = absl::Seconds(40);
  Restart();
  const std::string low = AddTenant("low", 0, 0, 0);
  warpline_internal::TenantRequest urgent;
  urgent.set_priority(5);
  const std::string high = AddTenant("high", 0, 0, 0, urgent);
  Tell(Report("a"));
  const auto lease = Acquire(10, low);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(Ask(Want(10, "k", high)).has_waiting());
  const LogCapture log;
  Pass(absl::Seconds(1));
  EXPECT_THAT(log.Text(), HasSubstr(absl::StrCat("ends soon lease=", lease->lease())));
  EXPECT_THAT(log.Text(), HasSubstr("tenant high"));
  // The holder hears that it ends, and nobody's name.
  EXPECT_EQ(scheduler_->Renew(lease->token())->ends_reason(),
            "a request that goes first needs its device");
  for (int i = 0; i < 10; ++i) {
    Tell(WithSessions(Report("a"), lease->lease()));
    EXPECT_TRUE(Ask(Want(10, "k", high)).has_waiting());
    Pass(absl::Seconds(3));
  }
  for (int i = 0; i < 4; ++i) {
    Tell(WithSessions(Report("a"), lease->lease()));
    Pass(absl::Seconds(3));
  }
  EXPECT_EQ(scheduler_->Renew(lease->token()).status().message(),
            "the lease was ended: a request that goes first needs its device");
  EXPECT_THAT(scheduler_->Leases("operator")->leases(0).reason(), HasSubstr("tenant high"));
  EXPECT_THAT(log.Text(), HasSubstr("ended lease="));
  EXPECT_FALSE(Ask(Want(10, "k", high)).has_waiting());
}

TEST_P(SchedulerPlacementTest, AnEpochTakesBackWhatIsLentAndSaysSo) {
  placement_.epoch = absl::Seconds(60);
  placement_.notice = absl::Seconds(40);
  Restart();
  const std::string first = AddTenant("first", 0, 0, 0);
  const std::string second = AddTenant("second", 0, 0, 0);
  Tell(Report("a"));
  const auto kept = Acquire(8, first);
  const auto lent = Acquire(8, first);
  ASSERT_TRUE(kept.ok() && lent.ok());
  const LogCapture log;
  bool waits = true;
  std::set<std::string> marked;
  for (int i = 0; i < 60 && waits; ++i) {
    Tell(WithSessions(WithSessions(Report("a"), kept->lease()), lent->lease()));
    waits = Ask(Want(8, "k", second)).has_waiting();
    Pass(absl::Seconds(3));
    const auto leases = scheduler_->Leases("operator");
    ASSERT_TRUE(leases.ok()) << leases.status();
    for (const auto& lease : leases->leases()) {
      if (lease.lent()) marked.insert(lease.id());
    }
  }
  EXPECT_FALSE(waits);
  EXPECT_EQ(marked, (std::set<std::string>{lent->lease()}));
  EXPECT_THAT(log.Text(), HasSubstr("tenant second has less than its share"));
  const std::string told(scheduler_->Renew(lent->token()).status().message());
  EXPECT_THAT(told, HasSubstr("the epoch ends"));
  EXPECT_THAT(told, Not(HasSubstr("second")));
  EXPECT_TRUE(scheduler_->Renew(kept->token()).ok());
}

TEST_P(SchedulerPlacementTest, TenantsNestAndSoDoTheirLimits) {
  warpline_internal::TenantRequest below;
  below.set_parent("org");
  EXPECT_EQ(PutTenant("team", "org").status().code(), Code::kInvalidArgument);
  AddTenant("org", 20, 0, 0);
  const std::string team = AddTenant("team", 0, 0, 0, below);
  const std::string other = AddTenant("other", 0, 0, 0, below);
  EXPECT_EQ(PutTenant("org", "team", /*create=*/false).status().code(), Code::kInvalidArgument);
  Restart();
  Tell(Report("a"));
  Tell(Report("b"));
  EXPECT_TRUE(Acquire(12, team).ok());
  const auto refused = Acquire(12, other);
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(refused.status().message(), HasSubstr("tenant org may lease 20480 MiB"));
  EXPECT_TRUE(Acquire(8, other).ok());
  warpline_internal::TenantRequest removal;
  removal.set_credential("operator");
  removal.set_name("org");
  EXPECT_EQ(scheduler_->RemoveTenant(removal).code(), Code::kFailedPrecondition);
  // It has its leases outside of the organisation from then on.
  ASSERT_TRUE(PutTenant("team", "", /*create=*/false).ok());
  EXPECT_TRUE(Acquire(8, other).ok());
  removal.set_name("other");
  EXPECT_TRUE(scheduler_->RemoveTenant(removal).ok());
  removal.set_name("org");
  EXPECT_TRUE(scheduler_->RemoveTenant(removal).ok());
  const auto left = scheduler_->Tenants("operator");
  ASSERT_EQ(left->tenants_size(), 1);
  EXPECT_EQ(left->tenants(0).name(), "team");
}

TEST_P(SchedulerPlacementTest, DecisionsAreRecordedAndCanBeReplayed) {
  Tell(Report("a"));
  const auto first = Acquire(16);
  EXPECT_TRUE(Ask(Want(10, "k")).has_waiting());
  ASSERT_TRUE(scheduler_->Release(first->token()).ok());
  Ask(Want(10, "k"));
  Restart();
  Tell(Report("a"));
  Ask(Want(5, "l"));
  scheduler_.reset();
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/decisions")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const auto replay = placement::ReplayDecisions(&file);
    ASSERT_TRUE(replay.ok()) << replay.status();
    EXPECT_GT(replay->decided, 2u);
    EXPECT_EQ(replay->different, 0u) << replay->difference;
    ++files;
  }
  EXPECT_EQ(files, 2);
}

INSTANTIATE_TEST_SUITE_P(States, SchedulerPlacementTest, kStateKinds, StateKindName);

}  // namespace
}  // namespace warpline::scheduler
