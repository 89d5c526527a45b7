#include "scheduler/sqlite_schema.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/records.h"
#include "scheduler/sqlite_store.h"
#include "transport/testing/temp_folder.h"

namespace warpline::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Code = absl::StatusCode;

// What a test does to SQLite in this process, on each connection that is opened from then on.
struct Trouble {
  int calls_left = -1;  // -1 for none.
  bool dies = false;    // The process, at a statement; otherwise a call is refused.
};
Trouble trouble;

int OnStatement(unsigned, void*, void*, void*) {
  if (trouble.dies && trouble.calls_left >= 0 && trouble.calls_left-- == 0) _exit(9);
  return 0;
}

int OnAuthorize(void*, int, const char*, const char*, const char*, const char*) {
  if (trouble.dies || trouble.calls_left < 0) return SQLITE_OK;
  return trouble.calls_left-- == 0 ? SQLITE_DENY : SQLITE_OK;
}

int OnConnection(sqlite3* db, const char**, const void*) {
  sqlite3_trace_v2(db, SQLITE_TRACE_STMT, OnStatement, nullptr);
  sqlite3_set_authorizer(db, OnAuthorize, nullptr);
  return SQLITE_OK;
}

class SqliteSchemaTest : public ::testing::Test {
 protected:
  SqliteSchemaTest() {
    trouble = {};
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(OnConnection));
  }
  ~SqliteSchemaTest() override { sqlite3_reset_auto_extension(); }

  std::string Path() const { return folder_.path() + "/state.db"; }

  // Makes a state of this version that has something of everything which all versions keep.
  void Make(int64_t version) {
    auto store = SqliteStore::Open(Path()).value();
    TenantRecord tenant;
    tenant.name = "a";
    tenant.credential_hash = "hash";
    tenant.max_lease_sessions = 7;
    ASSERT_TRUE(store->AddTenant(tenant).ok());
    ASSERT_TRUE(store->PutServer({"s", "127.0.0.1:1", "1", {{"GPU-0", "n", "cpu", 4096}}}).ok());
    for (const char* const id : {"1", "2"}) {
      LeaseRecord lease;
      lease.id = id;
      lease.tenant = "a";
      lease.server = "s";
      lease.devices = {"GPU-0"};
      lease.memory_bytes = 512;
      lease.max_sessions = 64;
      lease.created = absl::FromUnixMillis(1000);
      lease.expires = absl::FromUnixMillis(2000);
      ASSERT_TRUE(store->AddLease(lease).ok());
    }
    store.reset();
    const auto database = Database::Open(Path()).value();
    ASSERT_TRUE(BackToSchema(Path(), database.get(), version).ok());
  }

  int64_t Version() { return SchemaVersion(Database::Open(Path()).value().get()).value(); }

  // Opens the state, which brings it to the newest version, and looks for what Make() made.
  void ExpectEverything(const std::string& when) {
    const auto store = SqliteStore::Open(Path());
    ASSERT_TRUE(store.ok()) << when << ": " << store.status();
    const auto tenants = (*store)->Tenants().value();
    ASSERT_EQ(tenants.size(), 1u) << when;
    EXPECT_EQ(tenants[0].name, "a") << when;
    EXPECT_EQ(tenants[0].max_lease_sessions, 7u) << when;
    EXPECT_EQ(tenants[0].weight, 1u) << when;
    EXPECT_EQ((*store)->Servers()->at(0).devices.at(0).capacity_bytes, 4096u) << when;
    EXPECT_EQ((*store)->Leases()->size(), 2u) << when;
  }

  // The columns of every table, in their order.
  static std::map<std::string, std::string> Columns(Database* database) {
    std::map<std::string, std::string> columns;
    Statement row(database->get(),
                  "SELECT m.name, p.name || ' ' || p.type || ' ' || p.\"notnull\" || ' ' || "
                  "coalesce(p.dflt_value, '-') || ' ' || p.pk FROM sqlite_master m, "
                  "pragma_table_info(m.name) p WHERE m.type = 'table' ORDER BY m.name, p.cid");
    while (row.Step()) absl::StrAppend(&columns[row.Text(0)], row.Text(1), "\n");
    EXPECT_TRUE(row.status().ok()) << row.status();
    return columns;
  }

  // What became of `body` in a process that dies at its statement `number`.
  template <typename Body>
  static bool DiesAt(int number, Body body) {
    const pid_t child = fork();
    if (child == 0) {
      trouble = {.calls_left = number, .dies = true};
      body();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 9;
  }

  void Clear() {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      std::filesystem::remove_all(entry.path());
    }
  }

  // Keeps the state as it is, elsewhere, and puts it back: making it anew takes longer.
  std::string Keep() const {
    std::filesystem::copy(Path(), kept_.path() + "/state.db");
    return kept_.path() + "/state.db";
  }
  void PutBack(const std::string& kept) {
    Clear();
    std::filesystem::copy(kept, Path());
  }

  testing::TempFolder folder_;
  testing::TempFolder kept_;
};

TEST_F(SqliteSchemaTest, EveryStepHasAWayBackThatItUndoes) {
  ASSERT_TRUE(SqliteStore::Open(Path()).ok());
  const auto database = Database::Open(Path()).value();
  const auto newest = Columns(database.get());
  EXPECT_GT(newest.size(), 5u);
  for (int64_t version = NewestSchema() - 1; version >= 1; --version) {
    ASSERT_TRUE(BackToSchema(Path(), database.get(), version).ok()) << version;
    EXPECT_EQ(SchemaVersion(database.get()).value(), version);
    EXPECT_NE(Columns(database.get()), newest) << version;
    ASSERT_TRUE(MigrateSchema(Path(), database.get()).ok()) << version;
    EXPECT_EQ(Columns(database.get()), newest) << version;
  }
}

TEST_F(SqliteSchemaTest, WhatAllVersionsKeepGoesBackAndForth) {
  for (int64_t version = 1; version <= NewestSchema(); ++version) {
    Make(version);
    EXPECT_EQ(Version(), version);
    ExpectEverything(absl::StrCat("from version ", version));
    EXPECT_EQ(Version(), NewestSchema());
    Clear();
  }
}

TEST_F(SqliteSchemaTest, WhatGoingBackLosesIsCounted) {
  Make(NewestSchema());
  const auto store = SqliteStore::Open(Path()).value();
  const auto database = Database::Open(Path()).value();
  EXPECT_THAT(LostInSchema(database.get(), 1).value(), IsEmpty());
  ASSERT_TRUE(store->AddSlice({"small", {.max_handles = 100, .best_effort = true}}).ok());
  ASSERT_TRUE(store->PutCordon({"s", "why"}).ok());
  TenantRecord child = {"b", "hash"};
  child.parent = "a";
  child.slices = {"small"};
  ASSERT_TRUE(store->AddTenant(child).ok());
  EXPECT_THAT(LostInSchema(database.get(), 10).value(), IsEmpty());
  EXPECT_THAT(LostInSchema(database.get(), 7).value(),
              ElementsAre("1 slices that are best effort"));
  EXPECT_THAT(LostInSchema(database.get(), 6).value(),
              ElementsAre("1 slices that are best effort", "1 tenants below another one",
                          "1 cordons of servers"));
  EXPECT_THAT(LostInSchema(database.get(), 5).value(),
              ElementsAre("1 slices that are best effort", "1 tenants below another one",
                          "1 cordons of servers", "1 slices", "1 tenants with slices"));
}

TEST_F(SqliteSchemaTest, ACopyIsKeptOfWhatIsChanged) {
  Make(3);
  ExpectEverything("migrated");
  const std::string copy = KeptCopyOf(Path(), 3);
  struct stat info = {};
  ASSERT_EQ(stat(copy.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  {
    const auto database = Database::Open(copy).value();
    EXPECT_EQ(SchemaVersion(database.get()).value(), 3);
    Statement row(database->get(), "SELECT count(*) FROM leases");
    ASSERT_TRUE(row.Step());
    EXPECT_EQ(row.Number(0), 2);
  }
  // Put back as the message of a scheduler that refuses a newer state says.
  std::filesystem::copy_file(copy, Path(), std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(Version(), 3);
  ExpectEverything("put back");
}

TEST_F(SqliteSchemaTest, NothingIsChangedWithoutACopy) {
  Make(3);
  // Nothing can be written there.
  const std::string part = KeptCopyOf(Path(), 3) + ".part";
  std::filesystem::create_directory(part);
  const absl::Status refused = SqliteStore::Open(Path()).status();
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr(part));
  EXPECT_EQ(Version(), 3);
  std::filesystem::remove(part);
  ExpectEverything("tried again");
}

TEST_F(SqliteSchemaTest, AnEmptyStateLeavesNoCopy) {
  ASSERT_TRUE(SqliteStore::Open(Path()).ok());
  EXPECT_FALSE(std::filesystem::exists(KeptCopyOf(Path(), 0)));
}

TEST_F(SqliteSchemaTest, VersionsThatItCannotGoBackToAreRefused) {
  Make(5);
  const auto database = Database::Open(Path()).value();
  for (const int64_t version : {int64_t{-1}, int64_t{0}, int64_t{6}, NewestSchema() + 1}) {
    EXPECT_EQ(BackToSchema(Path(), database.get(), version).code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(SchemaVersion(database.get()).value(), 5);
}

TEST_F(SqliteSchemaTest, AMigrationThatIsKilledAtAnyStatementLosesNothing) {
  int deaths = 0;
  Make(1);
  const std::string made = Keep();
  for (int number = 0;; ++number) {
    PutBack(made);
    const bool died = DiesAt(number, [this] { (void)SqliteStore::Open(Path()); });
    deaths += died ? 1 : 0;
    if (died) {
      const int64_t version = Version();
      EXPECT_TRUE(version == 1 || version == NewestSchema()) << number << ": " << version;
    }
    ExpectEverything(absl::StrCat("killed at statement ", number));
    if (!died) break;
  }
  // There are that many statements in all steps.
  EXPECT_GT(deaths, 30);
}

TEST_F(SqliteSchemaTest, AWayBackThatIsKilledAtAnyStatementLosesNothing) {
  int deaths = 0;
  Make(NewestSchema());
  const std::string made = Keep();
  for (int number = 0;; ++number) {
    PutBack(made);
    const bool died = DiesAt(number, [this] {
      const auto database = Database::Open(Path());
      if (database.ok()) (void)BackToSchema(Path(), database->get(), 1);
    });
    deaths += died ? 1 : 0;
    if (died) {
      const int64_t version = Version();
      EXPECT_TRUE(version == 1 || version == NewestSchema()) << number << ": " << version;
    } else {
      EXPECT_EQ(Version(), 1);
    }
    ExpectEverything(absl::StrCat("killed at statement ", number));
    if (!died) break;
  }
  EXPECT_GT(deaths, 30);
}

TEST_F(SqliteSchemaTest, AMigrationOfWhichAnyPartFailsChangesNothing) {
  Make(1);
  int failures = 0;
  for (int number = 0;; ++number) {
    trouble = {.calls_left = number};
    const auto store = SqliteStore::Open(Path());
    const bool all_done = trouble.calls_left >= 0;
    trouble = {};
    if (store.ok() && all_done) break;
    // What fails after the last step, such as a check, may leave the newest.
    ++failures;
    const int64_t version = Version();
    ASSERT_TRUE(version == 1 || version == NewestSchema()) << number << ": " << version;
    if (version != 1) break;
  }
  EXPECT_GT(failures, 100);
  ExpectEverything("failed many times");
}

}  // namespace
}  // namespace warpline::scheduler
