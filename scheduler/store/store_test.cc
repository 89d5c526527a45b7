// Tests of the state over either kind of keys. Each test closes it and opens it again.
#include "scheduler/store/store.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/store/record_codec.h"
#include "scheduler/store/testing/state_house.h"
#include "transport/testing/temp_folder.h"

namespace warpline::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

LeaseRecord Lease(const std::string& id) {
  LeaseRecord lease;
  lease.id = id;
  lease.tenant = "a";
  lease.server = "s";
  lease.devices = {"GPU-0", "GPU-1"};
  lease.memory_bytes = 4ull << 30;
  lease.program = std::string("odd \0 name'); DROP TABLE leases;--", 34);
  lease.created = absl::FromUnixMillis(1000);
  lease.expires = absl::FromUnixMillis(2000);
  return lease;
}

class StoreTest : public ::testing::TestWithParam<StateKind> {
 protected:
  void SetUp() override {
    house_ = StateHouse::Make(GetParam(), folder_.path());
    if (house_ == nullptr) GTEST_SKIP() << "etcd is not installed (apt-get install etcd-server)";
    Reopen();
  }

  void Reopen() {
    store_.reset();
    auto store = house_->OpenStore();
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  // Changes keys behind the back of the store, which is closed.
  void Write(const WriteBatch& batch) {
    store_.reset();
    ASSERT_TRUE(house_->OpenKeys().value()->Write(batch).ok());
  }

  std::vector<std::string> Keys(absl::string_view prefix) {
    std::vector<std::string> keys;
    const auto status = store_->keys()->ForEach([&](absl::string_view key, const std::string&) {
      if (absl::StartsWith(key, prefix)) keys.emplace_back(key);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return keys;
  }

  testing::TempFolder folder_;
  std::unique_ptr<StateHouse> house_;
  std::unique_ptr<Store> store_;
};

TEST_P(StoreTest, TenantsAreKept) {
  TenantRecord tenant{"a", "hash", 1ull << 40, 3, 7, 60, 9, RightOf(Capability::kLaunch)};
  ASSERT_TRUE(store_->AddTenant(tenant).ok());
  EXPECT_EQ(store_->AddTenant(tenant).code(), absl::StatusCode::kAlreadyExists);
  tenant.max_leases = 4;
  tenant.weight = 3;
  tenant.copy_weight = 2;
  tenant.priority = 5;
  tenant.slices = {"small", "large"};
  tenant.parent = "org";
  tenant.reserved_bytes = 1ull << 33;
  tenant.namespaces = {"team-a", "team-b"};
  ASSERT_TRUE(store_->UpdateTenant(tenant).ok());
  Reopen();
  const auto tenants = store_->Tenants();
  ASSERT_EQ(tenants.size(), 1u);
  EXPECT_EQ(tenants.front().weight, 3u);
  EXPECT_EQ(tenants.front().copy_weight, 2u);
  EXPECT_EQ(tenants.front().priority, 5u);
  EXPECT_EQ(tenants.front().slices, tenant.slices);
  EXPECT_EQ(tenants.front().parent, "org");
  EXPECT_EQ(tenants.front().reserved_bytes, 1ull << 33);
  EXPECT_EQ(tenants.front().namespaces, (std::vector<std::string>{"team-a", "team-b"}));
  EXPECT_EQ(tenants.front().credential_hash, "hash");
  EXPECT_EQ(tenants.front().memory_bytes, 1ull << 40);
  EXPECT_EQ(tenants.front().max_leases, 4u);
  EXPECT_EQ(tenants.front().max_seconds, 60u);
  EXPECT_EQ(tenants.front().max_lease_sessions, 7u);
  EXPECT_EQ(tenants.front().max_sessions, 9u);
  EXPECT_EQ(tenants.front().rights, RightOf(Capability::kLaunch));
  ASSERT_TRUE(store_->RemoveTenant("a", {}).ok());
  EXPECT_EQ(store_->RemoveTenant("a", {}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->UpdateTenant(tenant).code(), absl::StatusCode::kNotFound);
}

// Each part has a number of its own, so that none is taken for another.
SliceShape SomeShape() {
  return {.memory_bytes = 4ull << 30,
          .staging_bytes = 64u << 20,
          .max_sessions = 3,
          .max_handles = 400,
          .max_module_bytes = 5u << 20,
          .max_commands = 600,
          .sm_percent = 70,
          .launch_ms = 80,
          .weight = 9,
          .copy_weight = 10,
          .priority = 11,
          .period_ms = 120,
          .budget_ms = 13,
          .best_effort = true};
}

TEST_P(StoreTest, SlicesAreKept) {
  SliceRecord slice = {"small", {}};
  ASSERT_TRUE(store_->AddSlice(slice).ok());
  EXPECT_EQ(store_->AddSlice(slice).code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(store_->AddSlice({"large", {}}).ok());
  slice.shape = SomeShape();
  ASSERT_TRUE(store_->UpdateSlice(slice).ok());
  Reopen();
  EXPECT_EQ(store_->Slices(), (std::vector<SliceRecord>{{"large", {}}, slice}));
  ASSERT_TRUE(store_->RemoveSlice("large").ok());
  EXPECT_EQ(store_->RemoveSlice("large").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->UpdateSlice({"large", {}}).code(), absl::StatusCode::kNotFound);
  Reopen();
  EXPECT_EQ(store_->Slices(), std::vector<SliceRecord>{slice});
}

TEST_P(StoreTest, ALeaseKeepsTheShapeOfItsSlice) {
  LeaseRecord lease = Lease("1");
  lease.slice = {"small", SomeShape()};
  ASSERT_TRUE(store_->AddLease(lease).ok());
  ASSERT_TRUE(store_->AddLease(Lease("2")).ok());
  lease.reason = {"why"};
  ASSERT_TRUE(store_->UpdateLease(lease).ok());
  Reopen();
  EXPECT_EQ(store_->FindLease("1")->slice, lease.slice);
  EXPECT_EQ(store_->FindLease("2")->slice, SliceRecord());
}

TEST_P(StoreTest, ServersAreReplacedWithTheirDevices) {
  ServerRecord server{
      "s", "127.0.0.1:1", "1", {{"GPU-1", "x", "cpu", 5}, {"GPU-0", "y", "cpu", 6}}};
  ASSERT_TRUE(store_->PutServer(server).ok());
  server.devices.pop_back();
  server.endpoint = "127.0.0.1:2";
  ASSERT_TRUE(store_->PutServer(server).ok());
  Reopen();
  const auto servers = store_->Servers();
  ASSERT_EQ(servers.size(), 1u);
  EXPECT_TRUE(servers.front() == server);
  ASSERT_TRUE(store_->ForgetServer("s").ok());
  EXPECT_TRUE(store_->Servers().empty());
}

TEST_P(StoreTest, ServersCredentialsAreKept) {
  ASSERT_TRUE(store_->AddServerCredential("s", "1").ok());
  EXPECT_EQ(store_->AddServerCredential("s", "2").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->UpdateServerCredential("t", "2").code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(store_->UpdateServerCredential("s", "3").ok());
  ASSERT_TRUE(store_->ForgetServer("s").ok());
  Reopen();
  EXPECT_EQ(store_->ServerCredential("s"), "3");
  EXPECT_EQ(store_->ServerCredential("t"), "");
  EXPECT_EQ(store_->ServersWithCredential().size(), 1u);
  ASSERT_TRUE(store_->RemoveServer("s", {}).ok());
  EXPECT_EQ(store_->RemoveServer("s", {}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->ServerCredential("s"), "");
}

TEST_P(StoreTest, CordonsAreKeptUntilTheirServerIsRemoved) {
  ASSERT_TRUE(store_->AddServerCredential("s", "1").ok());
  ASSERT_TRUE(store_->PutCordon({"s", "old"}).ok());
  const CordonRecord drained{"s", "new 'disks'", absl::FromUnixMillis(5000)};
  ASSERT_TRUE(store_->PutCordon(drained).ok());
  ASSERT_TRUE(store_->PutCordon({"t", ""}).ok());
  ASSERT_TRUE(store_->ForgetServer("s").ok());
  Reopen();
  EXPECT_THAT(store_->Cordons(), ::testing::ElementsAre(drained, CordonRecord{"t", ""}));
  ASSERT_TRUE(store_->RemoveCordon("t").ok());
  ASSERT_TRUE(store_->RemoveCordon("t").ok());
  EXPECT_EQ(store_->Cordons().size(), 1u);
  ASSERT_TRUE(store_->RemoveServer("s", {}).ok());
  Reopen();
  EXPECT_TRUE(store_->Cordons().empty());
}

TEST_P(StoreTest, WhoIsRemovedLosesItsActiveLeasesAndNobodyElse) {
  ASSERT_TRUE(store_->AddTenant({"a", "hash"}).ok());
  LeaseRecord other = Lease("2");
  other.tenant = "b";
  LeaseRecord released = Lease("3");
  released.state = LeaseState::kReleased;
  for (const LeaseRecord& lease : {Lease("1"), other, released}) {
    ASSERT_TRUE(store_->AddLease(lease).ok());
  }
  const LeaseEnd end = {{"gone"}, absl::FromUnixMillis(9000)};
  ASSERT_TRUE(store_->RemoveTenant("a", end).ok());
  EXPECT_EQ(store_->FindLease("1")->state, LeaseState::kRevoked);
  EXPECT_EQ(store_->FindLease("1")->reason.text, "gone");
  EXPECT_EQ(store_->FindLease("1")->expires, end.forget);
  EXPECT_EQ(store_->FindLease("2")->state, LeaseState::kActive);
  EXPECT_EQ(store_->FindLease("3")->state, LeaseState::kReleased);
  // Removing a server that does not exist ends no leases.
  EXPECT_FALSE(store_->RemoveServer("t", end).ok());
  EXPECT_EQ(store_->FindLease("2")->state, LeaseState::kActive);
}

TEST_P(StoreTest, HeadsOfAuditsAreKeptUntilTheirServerIsRemoved) {
  ASSERT_TRUE(store_->AddServerCredential("s", "1").ok());
  ASSERT_TRUE(store_->PutAuditHeads({{"s", "1:a", ""}, {"t", "5:b", ""}}).ok());
  ASSERT_TRUE(store_->PutAuditHeads({{"s", "2:c", "7:d"}}).ok());
  Reopen();
  const AuditHead s = {"s", "2:c", "7:d"};
  EXPECT_THAT(store_->AuditHeads(), ::testing::UnorderedElementsAre(s, AuditHead{"t", "5:b", ""}));
  // One that has a credential comes back by its name.
  ASSERT_TRUE(store_->ForgetServer("s").ok());
  ASSERT_TRUE(store_->ForgetServer("t").ok());
  EXPECT_THAT(store_->AuditHeads(), ::testing::ElementsAre(s));
  ASSERT_TRUE(store_->RemoveServer("s", {}).ok());
  EXPECT_TRUE(store_->AuditHeads().empty());
}

TEST_P(StoreTest, LeasesAreKeptWithWhateverTheirProgramIsCalled) {
  const LeaseRecord lease = Lease("1");
  ASSERT_TRUE(store_->AddLease(lease).ok());
  EXPECT_FALSE(store_->AddLease(lease).ok());
  LeaseRecord changed = lease;
  changed.state = LeaseState::kRevoked;
  changed.reason = {"why", EndCause::kRevoked};
  changed.expires = absl::FromUnixMillis(3000);
  ASSERT_TRUE(store_->UpdateLease(changed).ok());
  Reopen();
  const auto found = store_->FindLease("1");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->program, lease.program);
  EXPECT_EQ(found->devices, lease.devices);
  EXPECT_EQ(found->state, LeaseState::kRevoked);
  EXPECT_EQ(found->reason, (EndReason{"why", EndCause::kRevoked}));
  EXPECT_EQ(found->expires, changed.expires);
  EXPECT_EQ(found->ends, absl::InfiniteFuture());
  ASSERT_TRUE(store_->RemoveLease("1").ok());
  EXPECT_FALSE(store_->FindLease("1").has_value());
  EXPECT_EQ(store_->UpdateLease(changed).code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreTest, ALeaseThatHasMovedIsAtItsNewServerAndKnowsHowItCameThere) {
  LeaseRecord lease = Lease("1");
  lease.holder = {"abc", " host"};
  ASSERT_TRUE(store_->AddLease(lease).ok());
  Reopen();
  EXPECT_EQ(store_->FindLease("1")->holder, lease.holder);
  EXPECT_EQ(store_->FindLease("1")->moved, MovedLease());
  lease.moved = {.number = ~uint64_t{0},
                 .from = lease.server,
                 .from_instance = 7,
                 .at = absl::FromUnixMillis(2500),
                 .sessions = {{1, 2}, {3, 4}}};
  lease.server = "another";
  lease.devices = {"GPU-another"};
  lease.holder = {"def", " host"};
  ASSERT_TRUE(store_->UpdateLease(lease).ok());
  for (int i = 0; i < 2; ++i) {
    const auto found = store_->FindLease("1");
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->server, "another");
    EXPECT_EQ(found->devices, lease.devices);
    EXPECT_EQ(found->moved, lease.moved);
    EXPECT_EQ(found->holder, lease.holder);
    Reopen();
  }
  // It ends as one of its new server.
  lease.state = LeaseState::kRevoked;
  ASSERT_TRUE(store_->UpdateLease(lease).ok());
  EXPECT_EQ(store_->EndedLeasesOn("another").size(), 1u);
  EXPECT_TRUE(store_->EndedLeasesOn(lease.moved.from).empty());
}

TEST_P(StoreTest, LeasesOfOneKindAreFound) {
  for (int i = 0; i < 6; ++i) {
    LeaseRecord lease = Lease(absl::StrCat(i));
    lease.tenant = i < 5 ? "vision" : "speech";
    lease.state = i == 0 ? LeaseState::kActive : LeaseState::kRevoked;
    lease.expires = absl::FromUnixMillis(2000 - i);
    ASSERT_TRUE(store_->AddLease(lease).ok());
  }
  const auto active = store_->ActiveLeases();
  ASSERT_EQ(active.size(), 1u);
  EXPECT_EQ(active.front().id, "0");
  EXPECT_EQ(store_->EndedLeases("vision"), (std::vector<std::string>{"4", "3", "2", "1"}));
  EXPECT_EQ(store_->EndedLeasesOn("s").size(), 5u);
  EXPECT_TRUE(store_->EndedLeasesOn("t").empty());
  EXPECT_EQ(store_->LeasesExpiredBy(absl::FromUnixMillis(1996)).size(), 2u);
}

TEST_P(StoreTest, ExtendedLeasesDoNotOutliveTheirEnd) {
  LeaseRecord bounded = Lease("2");
  bounded.ends = absl::FromUnixMillis(2500);
  LeaseRecord over = Lease("3");
  over.state = LeaseState::kReleased;
  for (const LeaseRecord& lease : {Lease("1"), bounded, over}) {
    ASSERT_TRUE(store_->AddLease(lease).ok());
  }
  store_->ExtendLeases(absl::FromUnixMillis(2100), absl::Seconds(1));
  EXPECT_EQ(store_->FindLease("1")->expires, absl::FromUnixMillis(3100));
  EXPECT_EQ(store_->FindLease("2")->expires, absl::FromUnixMillis(2500));
  EXPECT_EQ(store_->FindLease("3")->expires, absl::FromUnixMillis(2000));
}

TEST_P(StoreTest, MoreLeasesThanABatchHoldsEndAtOnce) {
  constexpr int kLeases = 230;
  ASSERT_TRUE(store_->AddTenant({"a", "hash"}).ok());
  for (int i = 0; i < kLeases; ++i) ASSERT_TRUE(store_->AddLease(Lease(absl::StrCat(i))).ok());
  ASSERT_TRUE(store_->RemoveTenant("a", {{"gone"}, absl::FromUnixMillis(9000)}).ok());
  EXPECT_TRUE(store_->ActiveLeases().empty());
  EXPECT_TRUE(Keys(state_keys::kMark).empty());
  Reopen();
  EXPECT_TRUE(store_->ActiveLeases().empty());
  ASSERT_EQ(store_->EndedLeasesOn("s").size(), static_cast<size_t>(kLeases));
  EXPECT_EQ(store_->FindLease("0")->reason.text, "gone");
}

// The scheduler died when it had removed the tenant and not yet written that of its leases.
TEST_P(StoreTest, LeasesThatHaveEndedByAMarkStayEnded) {
  LeaseRecord other = Lease("2");
  other.tenant = "b";
  for (const LeaseRecord& lease : {Lease("1"), other}) ASSERT_TRUE(store_->AddLease(lease).ok());
  Write({.puts = {{"ends/tenant/a", Encode(LeaseEnd{{"gone"}, absl::FromUnixMillis(9000)})}}});
  // A reader does not write the rest.
  store_ = Store::OpenToRead(house_->OpenKeys().value()).value();
  EXPECT_EQ(store_->FindLease("1")->state, LeaseState::kRevoked);
  EXPECT_THAT(Keys(state_keys::kMark), ElementsAre("ends/tenant/a"));
  Reopen();
  EXPECT_EQ(store_->FindLease("1")->state, LeaseState::kRevoked);
  EXPECT_EQ(store_->FindLease("1")->expires, absl::FromUnixMillis(9000));
  EXPECT_EQ(store_->FindLease("2")->state, LeaseState::kActive);
  EXPECT_TRUE(Keys(state_keys::kMark).empty());
  // A tenant of that name may come back.
  ASSERT_TRUE(store_->AddTenant({"a", "hash"}).ok());
  ASSERT_TRUE(store_->AddLease(Lease("3")).ok());
  Reopen();
  EXPECT_EQ(store_->FindLease("3")->state, LeaseState::kActive);
}

TEST_P(StoreTest, WhatNoSchedulerWroteIsRefusedAndNamed) {
  const LeaseRecord lease = Lease("1");
  LeaseRecord nowhere = lease;
  nowhere.devices.clear();
  LeaseRecord huge = lease;
  huge.memory_bytes = 1ull << 60;
  LeaseRecord odd = lease;
  odd.state = static_cast<LeaseState>(7);
  TenantRecord tenant{"a", "hash"};
  tenant.tier = static_cast<TierChoice>(77);
  TenantRecord weightless{"a", "hash"};
  weightless.weight = 0;
  const std::string version = absl::StrCat(kStateVersion);
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"leases/1", "\xff\xff\xff"},
           {"leases/1", Encode(nowhere)},
           {"leases/1", Encode(huge)},
           {"leases/1", Encode(odd)},
           {"leases/no\nname", Encode(lease)},
           {"leases/", Encode(lease)},
           {"tenants/a", Encode(tenant)},
           {"tenants/a", Encode(weightless)},
           {"slices/small", "\xff"},
           {"slices/small", "\x38\x65"},  // A hundred and one percent of the multiprocessors.
           {"servers/a", "\x07"},
           {"credentials/a", ""},
           {"cordons/a", "\xff"},
           {"audits/a", "\xff"},
           {"ends/tenant/a", "\xff"},
           {"signing_keys", std::string(100000, 'x')},
           {"version", "one"}}) {
    Write({.puts = {{key, value}}});
    const auto store = house_->OpenStore();
    EXPECT_EQ(store.status().code(), Code::kDataLoss) << key;
    EXPECT_THAT(store.status().message(), HasSubstr(folder_.path()));
    Write(key == "version" ? WriteBatch{.puts = {{key, version}}} : WriteBatch{.deletes = {key}});
  }
  // Keys that a later scheduler may add without another version are left alone.
  Write({.puts = {{"queues/a", "\xff"}, {"whatever", "\xff"}}});
  EXPECT_TRUE(house_->OpenStore().ok());
  // A state says which version it is of.
  Write({.deletes = {"version"}});
  EXPECT_EQ(house_->OpenStore().status().code(), Code::kDataLoss);
}

TEST_P(StoreTest, AStateOfAnotherVersionIsRefused) {
  for (const int64_t version : {kStateVersion + 1, kStateVersion + 98}) {
    // Its records may be anything.
    Write({.puts = {{"version", absl::StrCat(version)}, {"leases/1", "\xff"}}});
    for (const absl::Status& refused :
         {house_->OpenStore().status(), Store::OpenToRead(house_->OpenKeys().value()).status()}) {
      EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
      EXPECT_THAT(refused.message(), HasSubstr(folder_.path()));
      EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat("version ", version)));
      EXPECT_THAT(refused.message(), HasSubstr("start the scheduler that wrote it"));
    }
  }
  Write({.puts = {{"version", absl::StrCat(kFillingStateVersion)}}});
  EXPECT_EQ(house_->OpenStore().status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(house_->OpenStore().status().message(),
              HasSubstr("run `warpline-scheduler state copy` again"));
}

TEST_P(StoreTest, WhatIsCutWithinACharacterIsReadAgain) {
  ASSERT_TRUE(store_->PutCordon({"s", "\xe2\x82"}).ok());
  Reopen();
  EXPECT_EQ(store_->Cordons().front().reason, "\xe2\x82");
}

TEST_P(StoreTest, SecretsOfSeveralSchedulersAreKept) {
  EXPECT_EQ(store_->operator_hash(), "");
  ASSERT_TRUE(store_->PutOperatorHash("hash").ok());
  ASSERT_TRUE(store_->SigningKeys()->Write("keys").ok());
  Reopen();
  EXPECT_EQ(store_->operator_hash(), "hash");
  EXPECT_EQ(store_->SigningKeys()->Read().value(), "keys");
}

INSTANTIATE_TEST_SUITE_P(States, StoreTest, kStateKinds, StateKindName);

}  // namespace
}  // namespace warpline::scheduler
