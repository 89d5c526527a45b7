#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "scheduler/pool_snapshot.h"
#include "scheduler/scheduler_fixture.h"

namespace warpline::scheduler {
namespace {

using SchedulerSnapshotTest = SchedulerTest;
using Why = WaitingInPool::Why;

INSTANTIATE_TEST_SUITE_P(States, SchedulerSnapshotTest, kStateKinds, StateKindName);

TEST_P(SchedulerSnapshotTest, ItKnowsWhoseACredentialIs) {
  const std::string acme = AddTenant("acme", 0, 0, 0);
  EXPECT_TRUE(scheduler_->ViewerOf("operator")->is_operator);
  EXPECT_EQ(scheduler_->ViewerOf(acme)->tenant, "acme");
  EXPECT_FALSE(scheduler_->ViewerOf(acme)->is_operator);
  const uint64_t before = scheduler_->Counts().rejected;
  EXPECT_TRUE(absl::IsUnauthenticated(scheduler_->ViewerOf("wrong").status()));
  EXPECT_TRUE(absl::IsUnauthenticated(scheduler_->ViewerOf(std::string(300, 'x')).status()));
  EXPECT_EQ(scheduler_->Counts().rejected, before + 2);
  EXPECT_TRUE(absl::IsUnauthenticated(scheduler_->ViewerOf("").status()));
}

TEST_P(SchedulerSnapshotTest, WithoutTenantsOnlyTheOperatorLooks) {
  EXPECT_TRUE(absl::IsUnauthenticated(scheduler_->ViewerOf("").status()));
  EXPECT_TRUE(absl::IsUnauthenticated(scheduler_->ViewerOf("anything").status()));
  EXPECT_TRUE(scheduler_->ViewerOf("operator").ok());
}

TEST_P(SchedulerSnapshotTest, HasWhatThereIs) {
  const std::string acme = AddTenant("acme", 0, 0, 0);
  Tell(Report("a"));
  Tell(Report("b"));
  const auto lease = Acquire(4, acme);
  ASSERT_TRUE(lease.ok()) << lease.status();
  Tell(WithSessions(Report(lease->server()), lease->lease()));
  const auto pool = scheduler_->Snapshot();
  ASSERT_TRUE(pool.ok()) << pool.status();
  ASSERT_EQ(pool->servers.size(), 2u);
  EXPECT_EQ(pool->servers[0].state, "up");
  EXPECT_EQ(pool->servers[0].record.devices[0].uuid, "GPU-a");
  ASSERT_EQ(pool->leases.size(), 1u);
  EXPECT_EQ(pool->leases[0].id, lease->lease());
  EXPECT_EQ(pool->sessions.at(lease->lease()), 1u);
  ASSERT_EQ(pool->tenants.size(), 1u);
  EXPECT_EQ(pool->tenants[0].credential_hash, "");
  EXPECT_FALSE(pool->from_follower);
}

TEST_P(SchedulerSnapshotTest, TellsLostCordonedAndDrainedServers) {
  AddTenant("acme", 0, 0, 0);
  Tell(Report("a"));
  Pass(absl::Seconds(4));
  Tell(Report("b"));
  Pass(absl::Seconds(2));
  warpline_internal::CordonRequest cordon;
  cordon.set_credential("operator");
  cordon.set_name("b");
  cordon.set_cordoned(true);
  cordon.set_reason("fan");
  ASSERT_TRUE(scheduler_->CordonServer(cordon).ok());
  auto pool = scheduler_->Snapshot();
  ASSERT_TRUE(pool.ok());
  EXPECT_EQ(pool->servers[0].state, "lost");
  EXPECT_EQ(pool->servers[0].heard, now_ - absl::Seconds(6));
  EXPECT_EQ(pool->servers[1].state, "cordoned");
  EXPECT_EQ(pool->servers[1].cordon_reason, "fan");
  cordon.set_drained_in_ms(60000);
  ASSERT_TRUE(scheduler_->CordonServer(cordon).ok());
  pool = scheduler_->Snapshot();
  ASSERT_TRUE(pool.ok());
  EXPECT_EQ(pool->servers[1].state, "draining");
  EXPECT_EQ(pool->servers[1].drained, now_ + absl::Minutes(1));
}

TEST_P(SchedulerSnapshotTest, TellsWhyRequestsWait) {
  const std::string acme = AddTenant("acme", 20, 0, 0);
  warpline_internal::TenantRequest below;
  below.set_parent("acme");
  const std::string team = AddTenant("team", 0, 0, 0, below);
  Tell(Report("a"));
  ASSERT_TRUE(Acquire(10, acme).ok());
  AcquireRequest request;
  const auto wait = [&](const std::string& credential, uint64_t gib, const std::string& gang) {
    request.set_credential(credential);
    request.set_memory_bytes(gib * kGiB);
    request.set_ticket(absl::StrCat("ticket", gib, gang));
    request.set_gang(gang);
    request.set_members(gang.empty() ? 0 : 2);
    const auto reply = scheduler_->Acquire(request, false, true);
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_TRUE(reply->has_waiting());
  };
  wait(team, 9, "");   // Fits nowhere.
  wait(team, 12, "");  // Above the limit of the tenant above.
  wait(acme, 1, "gang");
  const auto pool = scheduler_->Snapshot();
  ASSERT_TRUE(pool.ok());
  ASSERT_EQ(pool->waiting.size(), 3u);
  EXPECT_EQ(pool->waiting[0].why, Why::kRoom);
  EXPECT_EQ(pool->waiting[0].since, now_);
  EXPECT_EQ(pool->waiting[1].why, Why::kLimit);
  EXPECT_EQ(pool->waiting[1].limit_of, "acme");
  EXPECT_EQ(pool->waiting[2].why, Why::kMembers);
  EXPECT_EQ(pool->waiting[2].members, 2u);
  EXPECT_EQ(pool->waiting[2].asking, 1u);
}

}  // namespace
}  // namespace warpline::scheduler
