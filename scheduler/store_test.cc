#include "scheduler/store.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warpline::scheduler {
namespace {

using testing::HasSubstr;

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    folder_ = testing::TempDir() + "/store_XXXXXX";
    if (mkdtemp(folder_.data()) == nullptr) abort();
    Reopen();
  }

  void Reopen() {
    store_.reset();
    auto store = Store::Open(Path());
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  std::string Path() const { return folder_ + "/state.db"; }

  static LeaseRecord Lease(const std::string& id) {
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

  std::string folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, TenantsAreKept) {
  TenantRecord tenant{"a", "hash", 1ull << 40, 3, 7, 60, 9, RightOf(Capability::kLaunch)};
  ASSERT_TRUE(store_->AddTenant(tenant).ok());
  EXPECT_EQ(store_->AddTenant(tenant).code(), absl::StatusCode::kAlreadyExists);
  tenant.max_leases = 4;
  ASSERT_TRUE(store_->UpdateTenant(tenant).ok());
  Reopen();
  const auto tenants = store_->Tenants();
  ASSERT_TRUE(tenants.ok());
  ASSERT_EQ(tenants->size(), 1u);
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

TEST_F(StoreTest, ServersAreReplacedWithTheirDevices) {
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

TEST_F(StoreTest, ServersCredentialsAreKept) {
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

TEST_F(StoreTest, WhoIsRemovedLosesItsActiveLeasesAndNobodyElse) {
  ASSERT_TRUE(store_->AddTenant({"a", "hash"}).ok());
  LeaseRecord other = Lease("2");
  other.tenant = "b";
  LeaseRecord released = Lease("3");
  released.state = LeaseState::kReleased;
  for (const LeaseRecord& lease : {Lease("1"), other, released}) {
    ASSERT_TRUE(store_->AddLease(lease).ok());
  }
  const LeaseEnd end = {"gone", absl::FromUnixMillis(9000)};
  ASSERT_TRUE(store_->RemoveTenant("a", end).ok());
  EXPECT_EQ(store_->FindLease("1").value()->state, LeaseState::kRevoked);
  EXPECT_EQ(store_->FindLease("1").value()->reason, "gone");
  EXPECT_EQ(store_->FindLease("1").value()->expires, end.forget);
  EXPECT_EQ(store_->FindLease("2").value()->state, LeaseState::kActive);
  EXPECT_EQ(store_->FindLease("3").value()->state, LeaseState::kReleased);
  // Removing a server that does not exist ends no leases.
  EXPECT_FALSE(store_->RemoveServer("t", end).ok());
  EXPECT_EQ(store_->FindLease("2").value()->state, LeaseState::kActive);
}

// The state is as it was before tenants had rights.
TEST_F(StoreTest, StateOfTheFirstVersionIsTakenOver) {
  store_.reset();
  const std::string path = folder_ + "/old.db";
  ASSERT_TRUE(
      Database::Open(path)
          .value()
          ->Execute("CREATE TABLE tenants (name TEXT PRIMARY KEY, credential_hash TEXT NOT NULL,"
                    "  memory_bytes INTEGER NOT NULL, max_leases INTEGER NOT NULL,"
                    "  max_sessions INTEGER NOT NULL, max_seconds INTEGER NOT NULL)"
                    "  WITHOUT ROWID;"
                    "CREATE TABLE leases (id TEXT PRIMARY KEY, tenant TEXT NOT NULL,"
                    "  server TEXT NOT NULL, device TEXT NOT NULL, memory_bytes INTEGER NOT NULL,"
                    "  program TEXT NOT NULL, pid INTEGER NOT NULL, by_sessions INTEGER NOT NULL,"
                    "  state INTEGER NOT NULL, reason TEXT NOT NULL, created_ms INTEGER NOT NULL,"
                    "  expires_ms INTEGER NOT NULL, ends_ms INTEGER NOT NULL) WITHOUT ROWID;"
                    "INSERT INTO tenants VALUES ('a', 'hash', 5, 3, 7, 60);"
                    "PRAGMA user_version = 1;")
          .ok());
  auto store = Store::Open(path);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto tenants = (*store)->Tenants();
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  ASSERT_EQ(tenants->size(), 1u);
  EXPECT_EQ(tenants->front().max_lease_sessions, 7u);
  EXPECT_EQ(tenants->front().max_sessions, 0u);
  EXPECT_EQ(tenants->front().rights, kAllRights);
  EXPECT_EQ(tenants->front().tiers, kAllTiers);
  EXPECT_EQ(tenants->front().tier, TierChoice::kIsolated);
  EXPECT_EQ(tenants->front().weight, 1u);
  EXPECT_EQ(tenants->front().copy_weight, 1u);
  EXPECT_EQ(tenants->front().priority, 0u);
}

// The state is as it was before the heads of audits were kept.
TEST_F(StoreTest, StateOfTheSecondVersionIsTakenOver) {
  store_.reset();
  const std::string path = folder_ + "/old.db";
  ASSERT_TRUE(
      Database::Open(path)
          .value()
          ->Execute("CREATE TABLE tenants (name TEXT PRIMARY KEY, credential_hash TEXT NOT NULL,"
                    "  memory_bytes INTEGER NOT NULL, max_leases INTEGER NOT NULL,"
                    "  max_lease_sessions INTEGER NOT NULL, max_seconds INTEGER NOT NULL,"
                    "  max_sessions INTEGER NOT NULL DEFAULT 0,"
                    "  rights INTEGER NOT NULL DEFAULT 1) WITHOUT ROWID;"
                    "CREATE TABLE servers (name TEXT PRIMARY KEY, endpoint TEXT NOT NULL,"
                    "  version TEXT NOT NULL) WITHOUT ROWID;"
                    "CREATE TABLE devices (server TEXT NOT NULL REFERENCES servers(name)"
                    "  ON DELETE CASCADE, place INTEGER NOT NULL, uuid TEXT NOT NULL,"
                    "  name TEXT NOT NULL, backend TEXT NOT NULL, capacity_bytes INTEGER NOT NULL,"
                    "  PRIMARY KEY (server, place)) WITHOUT ROWID;"
                    "CREATE TABLE leases (id TEXT PRIMARY KEY, tenant TEXT NOT NULL,"
                    "  server TEXT NOT NULL, device TEXT NOT NULL, memory_bytes INTEGER NOT NULL,"
                    "  program TEXT NOT NULL, pid INTEGER NOT NULL, by_sessions INTEGER NOT NULL,"
                    "  state INTEGER NOT NULL, reason TEXT NOT NULL, created_ms INTEGER NOT NULL,"
                    "  expires_ms INTEGER NOT NULL, ends_ms INTEGER NOT NULL,"
                    "  max_sessions INTEGER NOT NULL DEFAULT 64) WITHOUT ROWID;"
                    "CREATE TABLE server_credentials (name TEXT PRIMARY KEY,"
                    "  credential_hash TEXT NOT NULL) WITHOUT ROWID;"
                    "INSERT INTO servers VALUES ('s', '127.0.0.1:1', '1');"
                    "PRAGMA user_version = 2;")
          .ok());
  auto store = Store::Open(path);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->Servers()->size(), 1u);
  EXPECT_TRUE((*store)->AuditHeads()->empty());
}

TEST_F(StoreTest, HeadsOfAuditsAreKeptUntilTheirServerIsRemoved) {
  ASSERT_TRUE(store_->AddServerCredential("s", "1").ok());
  ASSERT_TRUE(store_->PutAuditHeads({{"s", "1:a", ""}, {"t", "5:b", ""}}).ok());
  ASSERT_TRUE(store_->PutAuditHeads({{"s", "2:c", "7:d"}}).ok());
  Reopen();
  const AuditHead s = {"s", "2:c", "7:d"};
  EXPECT_THAT(store_->AuditHeads().value(),
              testing::UnorderedElementsAre(s, AuditHead{"t", "5:b", ""}));
  // One that has a credential comes back by its name.
  ASSERT_TRUE(store_->ForgetServer("s").ok());
  ASSERT_TRUE(store_->ForgetServer("t").ok());
  EXPECT_THAT(store_->AuditHeads().value(), testing::ElementsAre(s));
  ASSERT_TRUE(store_->RemoveServer("s", {}).ok());
  EXPECT_TRUE(store_->AuditHeads()->empty());
}

TEST_F(StoreTest, LeasesAreKeptWithWhateverTheirProgramIsCalled) {
  const LeaseRecord lease = Lease("1");
  ASSERT_TRUE(store_->AddLease(lease).ok());
  EXPECT_FALSE(store_->AddLease(lease).ok());
  LeaseRecord changed = lease;
  changed.state = LeaseState::kRevoked;
  changed.reason = "why";
  changed.expires = absl::FromUnixMillis(3000);
  ASSERT_TRUE(store_->UpdateLease(changed).ok());
  Reopen();
  const auto found = store_->FindLease("1");
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->program, lease.program);
  EXPECT_EQ((*found)->devices, lease.devices);
  EXPECT_EQ((*found)->state, LeaseState::kRevoked);
  EXPECT_EQ((*found)->reason, "why");
  EXPECT_EQ((*found)->expires, changed.expires);
  EXPECT_EQ((*found)->ends, absl::InfiniteFuture());
  ASSERT_TRUE(store_->RemoveLease("1").ok());
  EXPECT_FALSE(store_->FindLease("1")->has_value());
  EXPECT_EQ(store_->UpdateLease(changed).code(), absl::StatusCode::kNotFound);
}

// A child writes leases, tells each number when its call has returned, and is killed meanwhile.
TEST_F(StoreTest, WhatWasAnsweredSurvivesBeingKilled) {
  store_.reset();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto store = Store::Open(Path());
    for (int i = 0; store.ok(); ++i) {
      if (!(*store)->AddLease(Lease(absl::StrCat(i))).ok()) break;
      if (write(ends[1], &i, sizeof(i)) != sizeof(i)) break;
    }
    _exit(1);
  }
  close(ends[1]);
  int last = -1;
  int number;
  while (read(ends[0], &number, sizeof(number)) == sizeof(number)) {
    last = number;
    if (number == 20) kill(child, SIGKILL);
  }
  close(ends[0]);
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  Reopen();
  const auto leases = store_->Leases();
  ASSERT_TRUE(leases.ok());
  ASSERT_GE(last, 20);
  EXPECT_GE(leases->size(), static_cast<size_t>(last) + 1);
  EXPECT_LE(leases->size(), static_cast<size_t>(last) + 2);
}

TEST_F(StoreTest, LeasesOfOneKindAreFoundByAnIndex) {
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
  const auto database = Database::Open(Path()).value();
  for (const char* const query :
       {"SELECT * FROM leases WHERE state = 0", "SELECT * FROM leases WHERE expires_ms <= 5",
        "SELECT * FROM leases WHERE state IN (1, 2) AND tenant = 'vision'",
        "SELECT * FROM leases WHERE server = 's' AND state IN (1, 2)"}) {
    Statement plan(database->get(), absl::StrCat("EXPLAIN QUERY PLAN ", query).c_str());
    ASSERT_TRUE(plan.Step());
    EXPECT_THAT(plan.Text(3), HasSubstr("USING INDEX leases_by_")) << query;
  }
}

TEST_F(StoreTest, StateOfANewerVersionIsRefused) {
  store_.reset();
  ASSERT_TRUE(Database::Open(Path()).value()->Execute("PRAGMA user_version = 9").ok());
  const absl::Status refused = Store::Open(Path()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr(Path()));
  EXPECT_THAT(refused.message(), HasSubstr("version 9"));
}

TEST_F(StoreTest, DamageIsFoundWhenTheStoreIsOpened) {
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(store_->AddLease(Lease(absl::StrCat(i))).ok());
  store_.reset();
  // The schema, on the first page, stays as it was.
  constexpr std::streamoff kPage = 4096;
  const auto bytes = static_cast<std::streamoff>(std::filesystem::file_size(Path()));
  ASSERT_GT(bytes, kPage);
  std::fstream file(Path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(kPage);
  file << std::string(static_cast<size_t>(bytes - kPage), '\x5a');
  file.close();
  ASSERT_TRUE(file.good());
  const absl::Status refused = Store::Open(Path()).status();
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.message(), HasSubstr(Path()));
}

TEST_F(StoreTest, FileThatCannotBeOpenedIsNamed) {
  const absl::Status refused = Store::Open(folder_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr(folder_));
}

TEST_F(StoreTest, WhatIsNoDatabaseIsRefused) {
  const std::string path = folder_ + "/text";
  FILE* file = fopen(path.c_str(), "w");
  fputs("this is not a database, however long it may be, and it stays as it is", file);
  fclose(file);
  EXPECT_FALSE(Store::Open(path).ok());
}

}  // namespace
}  // namespace warpline::scheduler
