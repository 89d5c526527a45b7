// What holds for every store. Each kind of store has a house here, in which it is closed and opened
// again.
#include "scheduler/store.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/etcd/etcd_store.h"
#include "scheduler/etcd/testing/local_etcd.h"
#include "scheduler/sqlite_store.h"
#include "transport/testing/temp_folder.h"

namespace warpline::scheduler {
namespace {

// Where stores of one kind keep their state.
class StoreHouse {
 public:
  virtual ~StoreHouse() = default;
  virtual absl::StatusOr<std::unique_ptr<Store>> Open() = 0;
};

class SqliteHouse : public StoreHouse {
 public:
  absl::StatusOr<std::unique_ptr<Store>> Open() override {
    return SqliteStore::Open(folder_.path() + "/state.db");
  }

 private:
  testing::TempFolder folder_;
};

// Each opening is another term: the leader's key is made anew.
class EtcdHouse : public StoreHouse {
 public:
  explicit EtcdHouse(std::unique_ptr<LocalEtcd> etcd)
      : etcd_(std::move(etcd)), client_(etcd_->options()) {}

  absl::StatusOr<std::unique_ptr<Store>> Open() override {
    const auto guard = TakeLead(&client_, "/warpline/leader");
    if (!guard.ok()) return guard.status();
    return EtcdStore::Open(&client_, "/warpline/", *guard, [](const std::string&) {});
  }

 private:
  const std::unique_ptr<LocalEtcd> etcd_;
  EtcdClient client_;
};

std::unique_ptr<StoreHouse> MakeEtcdHouse() {
  auto etcd = LocalEtcd::Start();
  if (etcd == nullptr) return nullptr;
  return std::make_unique<EtcdHouse>(std::move(etcd));
}

struct StoreKind {
  const char* name;
  // Returns null where the program that such stores need is missing.
  std::function<std::unique_ptr<StoreHouse>()> make;
};

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

class StoreTest : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    house_ = GetParam().make();
    if (house_ == nullptr) GTEST_SKIP() << "what " << GetParam().name << " needs is not installed";
    Reopen();
  }

  void Reopen() {
    store_.reset();
    auto store = house_->Open();
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  std::unique_ptr<StoreHouse> house_;
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
  ASSERT_TRUE(tenants.ok());
  ASSERT_EQ(tenants->size(), 1u);
  EXPECT_EQ(tenants->front().weight, 3u);
  EXPECT_EQ(tenants->front().copy_weight, 2u);
  EXPECT_EQ(tenants->front().priority, 5u);
  EXPECT_EQ(tenants->front().slices, tenant.slices);
  EXPECT_EQ(tenants->front().parent, "org");
  EXPECT_EQ(tenants->front().reserved_bytes, 1ull << 33);
  EXPECT_EQ(tenants->front().namespaces, (std::vector<std::string>{"team-a", "team-b"}));
  EXPECT_EQ(tenants->front().credential_hash, "hash");
  EXPECT_EQ(tenants->front().memory_bytes, 1ull << 40);
  EXPECT_EQ(tenants->front().max_leases, 4u);
  EXPECT_EQ(tenants->front().max_seconds, 60u);
  EXPECT_EQ(tenants->front().max_lease_sessions, 7u);
  EXPECT_EQ(tenants->front().max_sessions, 9u);
  EXPECT_EQ(tenants->front().rights, RightOf(Capability::kLaunch));
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
  auto slices = store_->Slices();
  ASSERT_TRUE(slices.ok()) << slices.status();
  EXPECT_EQ(*slices, (std::vector<SliceRecord>{{"large", {}}, slice}));
  ASSERT_TRUE(store_->RemoveSlice("large").ok());
  EXPECT_EQ(store_->RemoveSlice("large").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->UpdateSlice({"large", {}}).code(), absl::StatusCode::kNotFound);
  Reopen();
  EXPECT_EQ(*store_->Slices(), std::vector<SliceRecord>{slice});
}

TEST_P(StoreTest, ALeaseKeepsTheShapeOfItsSlice) {
  LeaseRecord lease = Lease("1");
  lease.slice = {"small", SomeShape()};
  ASSERT_TRUE(store_->AddLease(lease).ok());
  ASSERT_TRUE(store_->AddLease(Lease("2")).ok());
  lease.reason = {"why", EndCause::kDrained};
  ASSERT_TRUE(store_->UpdateLease(lease).ok());
  Reopen();
  EXPECT_EQ((*store_->FindLease("1"))->slice, lease.slice);
  EXPECT_EQ((*store_->FindLease("2"))->slice, SliceRecord());
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
  ASSERT_TRUE(servers.ok());
  ASSERT_EQ(servers->size(), 1u);
  EXPECT_TRUE(servers->front() == server);
  ASSERT_TRUE(store_->ForgetServer("s").ok());
  EXPECT_TRUE(store_->Servers()->empty());
}

TEST_P(StoreTest, ServersCredentialsAreKept) {
  ASSERT_TRUE(store_->AddServerCredential("s", "1").ok());
  EXPECT_EQ(store_->AddServerCredential("s", "2").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->UpdateServerCredential("t", "2").code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(store_->UpdateServerCredential("s", "3").ok());
  ASSERT_TRUE(store_->ForgetServer("s").ok());
  Reopen();
  EXPECT_EQ(store_->ServerCredential("s").value(), "3");
  EXPECT_EQ(store_->ServerCredential("t").value(), "");
  EXPECT_EQ(store_->ServersWithCredential()->size(), 1u);
  ASSERT_TRUE(store_->RemoveServer("s", {}).ok());
  EXPECT_EQ(store_->RemoveServer("s", {}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->ServerCredential("s").value(), "");
}

TEST_P(StoreTest, CordonsAreKeptUntilTheirServerIsRemoved) {
  ASSERT_TRUE(store_->AddServerCredential("s", "1").ok());
  ASSERT_TRUE(store_->PutCordon({"s", "old"}).ok());
  const CordonRecord drained{"s", "new 'disks'", absl::FromUnixMillis(5000)};
  ASSERT_TRUE(store_->PutCordon(drained).ok());
  ASSERT_TRUE(store_->PutCordon({"t", ""}).ok());
  ASSERT_TRUE(store_->ForgetServer("s").ok());
  Reopen();
  EXPECT_THAT(store_->Cordons().value(), ::testing::ElementsAre(drained, CordonRecord{"t", ""}));
  ASSERT_TRUE(store_->RemoveCordon("t").ok());
  ASSERT_TRUE(store_->RemoveCordon("t").ok());
  EXPECT_EQ(store_->Cordons()->size(), 1u);
  ASSERT_TRUE(store_->RemoveServer("s", {}).ok());
  Reopen();
  EXPECT_TRUE(store_->Cordons()->empty());
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
  const LeaseEnd end = {{"gone", EndCause::kNamesNobody}, absl::FromUnixMillis(9000)};
  ASSERT_TRUE(store_->RemoveTenant("a", end).ok());
  EXPECT_EQ(store_->FindLease("1").value()->state, LeaseState::kRevoked);
  EXPECT_EQ(store_->FindLease("1").value()->reason, end.reason);
  EXPECT_EQ(store_->FindLease("1").value()->expires, end.forget);
  EXPECT_EQ(store_->FindLease("2").value()->state, LeaseState::kActive);
  EXPECT_EQ(store_->FindLease("3").value()->state, LeaseState::kReleased);
  // Removing a server that does not exist ends no leases.
  EXPECT_FALSE(store_->RemoveServer("t", end).ok());
  EXPECT_EQ(store_->FindLease("2").value()->state, LeaseState::kActive);
}

TEST_P(StoreTest, HeadsOfAuditsAreKeptUntilTheirServerIsRemoved) {
  ASSERT_TRUE(store_->AddServerCredential("s", "1").ok());
  ASSERT_TRUE(store_->PutAuditHeads({{"s", "1:a", ""}, {"t", "5:b", ""}}).ok());
  ASSERT_TRUE(store_->PutAuditHeads({{"s", "2:c", "7:d"}}).ok());
  Reopen();
  const AuditHead s = {"s", "2:c", "7:d"};
  EXPECT_THAT(store_->AuditHeads().value(),
              ::testing::UnorderedElementsAre(s, AuditHead{"t", "5:b", ""}));
  // One that has a credential comes back by its name.
  ASSERT_TRUE(store_->ForgetServer("s").ok());
  ASSERT_TRUE(store_->ForgetServer("t").ok());
  EXPECT_THAT(store_->AuditHeads().value(), ::testing::ElementsAre(s));
  ASSERT_TRUE(store_->RemoveServer("s", {}).ok());
  EXPECT_TRUE(store_->AuditHeads()->empty());
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
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->program, lease.program);
  EXPECT_EQ((*found)->devices, lease.devices);
  EXPECT_EQ((*found)->state, LeaseState::kRevoked);
  EXPECT_EQ((*found)->reason, changed.reason);
  EXPECT_EQ((*found)->expires, changed.expires);
  EXPECT_EQ((*found)->ends, absl::InfiniteFuture());
  ASSERT_TRUE(store_->RemoveLease("1").ok());
  EXPECT_FALSE(store_->FindLease("1")->has_value());
  EXPECT_EQ(store_->UpdateLease(changed).code(), absl::StatusCode::kNotFound);
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
  ASSERT_TRUE(active.ok());
  ASSERT_EQ(active->size(), 1u);
  EXPECT_EQ(active->front().id, "0");
  EXPECT_EQ(store_->EndedLeases("vision").value(), (std::vector<std::string>{"4", "3", "2", "1"}));
  EXPECT_EQ(store_->EndedLeasesOn("s")->size(), 5u);
  EXPECT_TRUE(store_->EndedLeasesOn("t")->empty());
  const auto expired = store_->LeasesExpiredBy(absl::FromUnixMillis(1996));
  ASSERT_TRUE(expired.ok());
  EXPECT_EQ(expired->size(), 2u);
}

TEST_P(StoreTest, ExtendedLeasesDoNotOutliveTheirEnd) {
  LeaseRecord bounded = Lease("2");
  bounded.ends = absl::FromUnixMillis(2500);
  LeaseRecord over = Lease("3");
  over.state = LeaseState::kReleased;
  for (const LeaseRecord& lease : {Lease("1"), bounded, over}) {
    ASSERT_TRUE(store_->AddLease(lease).ok());
  }
  ASSERT_TRUE(store_->ExtendLeases(absl::FromUnixMillis(2100), absl::Seconds(1)).ok());
  EXPECT_EQ(store_->FindLease("1").value()->expires, absl::FromUnixMillis(3100));
  EXPECT_EQ(store_->FindLease("2").value()->expires, absl::FromUnixMillis(2500));
  EXPECT_EQ(store_->FindLease("3").value()->expires, absl::FromUnixMillis(2000));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, StoreTest,
    ::testing::Values(StoreKind{"Sqlite", [] { return std::make_unique<SqliteHouse>(); }},
                      StoreKind{"Etcd", [] { return MakeEtcdHouse(); }}),
    [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace warpline::scheduler
