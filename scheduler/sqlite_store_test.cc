#include "scheduler/sqlite_store.h"

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

class SqliteStoreTest : public testing::Test {
 protected:
  SqliteStoreTest() {
    folder_ = testing::TempDir() + "/store_XXXXXX";
    if (mkdtemp(folder_.data()) == nullptr) abort();
    Reopen();
  }

  void Reopen() {
    store_.reset();
    auto store = SqliteStore::Open(Path());
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
  std::unique_ptr<SqliteStore> store_;
};

// The state is as it was before tenants had rights.
TEST_F(SqliteStoreTest, StateOfTheFirstVersionIsTakenOver) {
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
  auto store = SqliteStore::Open(path);
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
  EXPECT_EQ(tenants->front().parent, "");
  EXPECT_EQ(tenants->front().reserved_bytes, 0u);
  EXPECT_TRUE(tenants->front().namespaces.empty());
  EXPECT_TRUE((*store)->Cordons()->empty());
}

// The state is as it was before the heads of audits were kept.
TEST_F(SqliteStoreTest, StateOfTheSecondVersionIsTakenOver) {
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
  auto store = SqliteStore::Open(path);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->Servers()->size(), 1u);
  EXPECT_TRUE((*store)->AuditHeads()->empty());
}

// A child writes leases, tells each number when its call has returned, and is killed meanwhile.
// The state is as it was before there were slices.
TEST_F(SqliteStoreTest, StateOfTheFifthVersionIsTakenOver) {
  store_.reset();
  const std::string path = folder_ + "/old.db";
  ASSERT_TRUE(
      Database::Open(path)
          .value()
          ->Execute("CREATE TABLE tenants (name TEXT PRIMARY KEY, credential_hash TEXT NOT NULL,"
                    "  memory_bytes INTEGER NOT NULL, max_leases INTEGER NOT NULL,"
                    "  max_lease_sessions INTEGER NOT NULL, max_seconds INTEGER NOT NULL,"
                    "  max_sessions INTEGER NOT NULL DEFAULT 0,"
                    "  rights INTEGER NOT NULL DEFAULT 1, tiers INTEGER NOT NULL DEFAULT -1,"
                    "  tier INTEGER NOT NULL DEFAULT 0, weight INTEGER NOT NULL DEFAULT 1,"
                    "  copy_weight INTEGER NOT NULL DEFAULT 1,"
                    "  priority INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;"
                    "CREATE TABLE leases (id TEXT PRIMARY KEY, tenant TEXT NOT NULL,"
                    "  server TEXT NOT NULL, device TEXT NOT NULL, memory_bytes INTEGER NOT NULL,"
                    "  program TEXT NOT NULL, pid INTEGER NOT NULL, by_sessions INTEGER NOT NULL,"
                    "  state INTEGER NOT NULL, reason TEXT NOT NULL, created_ms INTEGER NOT NULL,"
                    "  expires_ms INTEGER NOT NULL, ends_ms INTEGER NOT NULL,"
                    "  max_sessions INTEGER NOT NULL DEFAULT 64) WITHOUT ROWID;"
                    "INSERT INTO tenants VALUES ('a', 'hash', 5, 3, 7, 60, 9, 1, -1, 0, 4, 2, 6);"
                    "INSERT INTO leases VALUES ('1', 'a', 's', 'GPU-0', 1024, 'p', 8, 0, 0, '',"
                    "  1000, 2000, 0, 5);"
                    "PRAGMA user_version = 5;")
          .ok());
  auto store = SqliteStore::Open(path);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto tenants = (*store)->Tenants();
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  ASSERT_EQ(tenants->size(), 1u);
  EXPECT_EQ(tenants->front().weight, 4u);
  EXPECT_EQ(tenants->front().priority, 6u);
  EXPECT_TRUE(tenants->front().slices.empty());
  EXPECT_TRUE((*store)->Slices()->empty());
  const auto lease = (*store)->FindLease("1");
  ASSERT_TRUE(lease.ok() && lease->has_value());
  EXPECT_EQ((*lease)->memory_bytes, 1024u);
  EXPECT_EQ((*lease)->max_sessions, 5u);
  EXPECT_EQ((*lease)->slice, SliceRecord());
  // What is written now has all columns.
  LeaseRecord sliced = Lease("2");
  sliced.slice = {"small", {.max_handles = 100}};
  ASSERT_TRUE((*store)->AddLease(sliced).ok());
  EXPECT_EQ((*(*store)->FindLease("2"))->slice, sliced.slice);
}

TEST_F(SqliteStoreTest, WhatWasAnsweredSurvivesBeingKilled) {
  store_.reset();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto store = SqliteStore::Open(Path());
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

TEST_F(SqliteStoreTest, LeasesOfOneKindAreFoundByAnIndex) {
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

TEST_F(SqliteStoreTest, StateOfANewerVersionIsRefused) {
  store_.reset();
  ASSERT_TRUE(Database::Open(Path()).value()->Execute("PRAGMA user_version = 11").ok());
  const absl::Status refused = SqliteStore::Open(Path()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr(Path()));
  EXPECT_THAT(refused.message(), HasSubstr("version 10"));
}

TEST_F(SqliteStoreTest, DamageIsFoundWhenTheStoreIsOpened) {
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
  const absl::Status refused = SqliteStore::Open(Path()).status();
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.message(), HasSubstr(Path()));
}

TEST_F(SqliteStoreTest, FileThatCannotBeOpenedIsNamed) {
  const absl::Status refused = SqliteStore::Open(folder_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr(folder_));
}

TEST_F(SqliteStoreTest, WhatIsNoDatabaseIsRefused) {
  const std::string path = folder_ + "/text";
  FILE* file = fopen(path.c_str(), "w");
  fputs("this is not a database, however long it may be, and it stays as it is", file);
  fclose(file);
  EXPECT_FALSE(SqliteStore::Open(path).ok());
}

}  // namespace
}  // namespace warpline::scheduler
