#include "scheduler/sqlite_schema.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"

namespace warpline::scheduler {
namespace {

// Something that the version before a step cannot keep: how it is called, and how many there are.
struct Kept {
  const char* what;
  const char* count;
};

// Step i brings the state from version i to the next, and back.
struct Step {
  const char* forth;
  const char* back;  // Null for the first: there is no version before.
  Kept kept[3] = {};
};

constexpr Step kSteps[] = {
    {.forth = R"sql(
CREATE TABLE tenants (name TEXT PRIMARY KEY, credential_hash TEXT NOT NULL,
  memory_bytes INTEGER NOT NULL, max_leases INTEGER NOT NULL, max_sessions INTEGER NOT NULL,
  max_seconds INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE servers (name TEXT PRIMARY KEY, endpoint TEXT NOT NULL, version TEXT NOT NULL)
  WITHOUT ROWID;
CREATE TABLE devices (server TEXT NOT NULL REFERENCES servers(name) ON DELETE CASCADE,
  place INTEGER NOT NULL, uuid TEXT NOT NULL, name TEXT NOT NULL, backend TEXT NOT NULL,
  capacity_bytes INTEGER NOT NULL, PRIMARY KEY (server, place)) WITHOUT ROWID;
CREATE TABLE leases (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, server TEXT NOT NULL,
  device TEXT NOT NULL, memory_bytes INTEGER NOT NULL, program TEXT NOT NULL, pid INTEGER NOT NULL,
  by_sessions INTEGER NOT NULL, state INTEGER NOT NULL, reason TEXT NOT NULL,
  created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, ends_ms INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA user_version = 1;
)sql",
     .back = nullptr},
    {.forth = R"sql(
ALTER TABLE tenants RENAME COLUMN max_sessions TO max_lease_sessions;
ALTER TABLE tenants ADD COLUMN max_sessions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN rights INTEGER NOT NULL DEFAULT 1;
ALTER TABLE leases ADD COLUMN max_sessions INTEGER NOT NULL DEFAULT 64;
CREATE TABLE server_credentials (name TEXT PRIMARY KEY, credential_hash TEXT NOT NULL)
  WITHOUT ROWID;
PRAGMA user_version = 2;
)sql",
     .back = R"sql(
ALTER TABLE tenants DROP COLUMN rights;
ALTER TABLE tenants DROP COLUMN max_sessions;
ALTER TABLE tenants RENAME COLUMN max_lease_sessions TO max_sessions;
ALTER TABLE leases DROP COLUMN max_sessions;
DROP TABLE server_credentials;
PRAGMA user_version = 1;
)sql",
     .kept = {{"tenants with rights of their own",
               "SELECT count(*) FROM tenants WHERE rights <> 1"},
              {"tenants with a limit of sessions",
               "SELECT count(*) FROM tenants WHERE max_sessions <> 0"},
              {"servers with a credential", "SELECT count(*) FROM server_credentials"}}},
    {.forth = R"sql(
CREATE TABLE audit_heads (server TEXT PRIMARY KEY, head TEXT NOT NULL, lost TEXT NOT NULL)
  WITHOUT ROWID;
PRAGMA user_version = 3;
)sql",
     .back = R"sql(
DROP TABLE audit_heads;
PRAGMA user_version = 2;
)sql",
     .kept = {{"ends of servers' audits", "SELECT count(*) FROM audit_heads"}}},
    {.forth = R"sql(
ALTER TABLE tenants ADD COLUMN tiers INTEGER NOT NULL DEFAULT -1;
ALTER TABLE tenants ADD COLUMN tier INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 4;
)sql",
     .back = R"sql(
ALTER TABLE tenants DROP COLUMN tier;
ALTER TABLE tenants DROP COLUMN tiers;
PRAGMA user_version = 3;
)sql",
     .kept = {{"tenants with tiers of their own",
               "SELECT count(*) FROM tenants WHERE tiers <> -1 OR tier <> 0"}}},
    {.forth = R"sql(
ALTER TABLE tenants ADD COLUMN weight INTEGER NOT NULL DEFAULT 1;
ALTER TABLE tenants ADD COLUMN copy_weight INTEGER NOT NULL DEFAULT 1;
ALTER TABLE tenants ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 5;
)sql",
     .back = R"sql(
ALTER TABLE tenants DROP COLUMN priority;
ALTER TABLE tenants DROP COLUMN copy_weight;
ALTER TABLE tenants DROP COLUMN weight;
PRAGMA user_version = 4;
)sql",
     .kept =
         {{"tenants with weights of their own",
           "SELECT count(*) FROM tenants WHERE weight <> 1 OR copy_weight <> 1 OR priority <> 0"}}},
    {.forth = R"sql(
ALTER TABLE tenants ADD COLUMN slices TEXT NOT NULL DEFAULT '';
CREATE TABLE slices (name TEXT PRIMARY KEY, memory_bytes INTEGER NOT NULL,
  staging_bytes INTEGER NOT NULL, max_sessions INTEGER NOT NULL, max_handles INTEGER NOT NULL,
  max_module_bytes INTEGER NOT NULL, max_commands INTEGER NOT NULL, sm_percent INTEGER NOT NULL,
  launch_ms INTEGER NOT NULL, weight INTEGER NOT NULL, copy_weight INTEGER NOT NULL,
  priority INTEGER NOT NULL) WITHOUT ROWID;
ALTER TABLE leases ADD COLUMN slice TEXT NOT NULL DEFAULT '';
ALTER TABLE leases ADD COLUMN slice_memory_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN slice_staging_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN slice_max_sessions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN slice_max_handles INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN slice_max_module_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN slice_max_commands INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN slice_sm_percent INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN slice_launch_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN slice_weight INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN slice_copy_weight INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN slice_priority INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 6;
)sql",
     .back = R"sql(
ALTER TABLE leases DROP COLUMN slice_priority;
ALTER TABLE leases DROP COLUMN slice_copy_weight;
ALTER TABLE leases DROP COLUMN slice_weight;
ALTER TABLE leases DROP COLUMN slice_launch_ms;
ALTER TABLE leases DROP COLUMN slice_sm_percent;
ALTER TABLE leases DROP COLUMN slice_max_commands;
ALTER TABLE leases DROP COLUMN slice_max_module_bytes;
ALTER TABLE leases DROP COLUMN slice_max_handles;
ALTER TABLE leases DROP COLUMN slice_max_sessions;
ALTER TABLE leases DROP COLUMN slice_staging_bytes;
ALTER TABLE leases DROP COLUMN slice_memory_bytes;
ALTER TABLE leases DROP COLUMN slice;
DROP TABLE slices;
ALTER TABLE tenants DROP COLUMN slices;
PRAGMA user_version = 5;
)sql",
     .kept = {{"slices", "SELECT count(*) FROM slices"},
              {"tenants with slices", "SELECT count(*) FROM tenants WHERE slices <> ''"},
              {"leases that are of a slice", "SELECT count(*) FROM leases WHERE slice <> ''"}}},
    {.forth = R"sql(
ALTER TABLE tenants ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE tenants ADD COLUMN reserved_bytes INTEGER NOT NULL DEFAULT 0;
CREATE TABLE cordons (server TEXT PRIMARY KEY, reason TEXT NOT NULL, drained_ms INTEGER NOT NULL)
  WITHOUT ROWID;
PRAGMA user_version = 7;
)sql",
     .back = R"sql(
DROP TABLE cordons;
ALTER TABLE tenants DROP COLUMN reserved_bytes;
ALTER TABLE tenants DROP COLUMN parent;
PRAGMA user_version = 6;
)sql",
     .kept = {{"tenants below another one", "SELECT count(*) FROM tenants WHERE parent <> ''"},
              {"tenants with reserved memory",
               "SELECT count(*) FROM tenants WHERE reserved_bytes <> 0"},
              {"cordons of servers", "SELECT count(*) FROM cordons"}}},
    {.forth = R"sql(
ALTER TABLE tenants ADD COLUMN namespaces TEXT NOT NULL DEFAULT '';
PRAGMA user_version = 8;
)sql",
     .back = R"sql(
ALTER TABLE tenants DROP COLUMN namespaces;
PRAGMA user_version = 7;
)sql",
     .kept = {{"tenants with namespaces", "SELECT count(*) FROM tenants WHERE namespaces <> ''"}}},
    {.forth = R"sql(
ALTER TABLE slices ADD COLUMN period_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE slices ADD COLUMN budget_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN slice_period_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN slice_budget_ms INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 9;
)sql",
     .back = R"sql(
ALTER TABLE leases DROP COLUMN slice_budget_ms;
ALTER TABLE leases DROP COLUMN slice_period_ms;
ALTER TABLE slices DROP COLUMN budget_ms;
ALTER TABLE slices DROP COLUMN period_ms;
PRAGMA user_version = 8;
)sql",
     .kept = {{"slices with a reservation", "SELECT count(*) FROM slices WHERE period_ms <> 0"},
              {"leases with a reservation",
               "SELECT count(*) FROM leases WHERE slice_period_ms <> 0"}}},
    {.forth = R"sql(
ALTER TABLE slices ADD COLUMN best_effort INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN slice_best_effort INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 10;
)sql",
     .back = R"sql(
ALTER TABLE leases DROP COLUMN slice_best_effort;
ALTER TABLE slices DROP COLUMN best_effort;
PRAGMA user_version = 9;
)sql",
     .kept = {{"slices that are best effort", "SELECT count(*) FROM slices WHERE best_effort <> 0"},
              {"leases that are best effort",
               "SELECT count(*) FROM leases WHERE slice_best_effort <> 0"}}},
    // The version before tells tenants less of why a lease has ended, and no more is lost.
    {.forth = R"sql(
ALTER TABLE leases ADD COLUMN end_cause INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 11;
)sql",
     .back = R"sql(
ALTER TABLE leases DROP COLUMN end_cause;
PRAGMA user_version = 10;
)sql"},
};
constexpr int64_t kNewest = std::size(kSteps);

// What makes queries fast says nothing, so it is part of no version.
constexpr char kIndexes[] = R"sql(
CREATE INDEX IF NOT EXISTS leases_by_state ON leases (state, tenant);
CREATE INDEX IF NOT EXISTS leases_by_expiry ON leases (expires_ms);
CREATE INDEX IF NOT EXISTS leases_by_server ON leases (server, state);
)sql";

absl::Status Failed(absl::string_view what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path, ": ", strerror(errno)));
}

// Brings what was written under `path` to the disk.
absl::Status Sync(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file.get() >= 0 && fsync(file.get()) == 0 ? absl::OkStatus() : Failed("write", path);
}

absl::StatusOr<int64_t> Number(Database* database, const char* query) {
  Statement statement(database->get(), query);
  const int64_t number = statement.Step() ? statement.Number(0) : 0;
  if (!statement.status().ok()) return statement.status();
  return number;
}

}  // namespace

int64_t NewestSchema() { return kNewest; }

absl::StatusOr<int64_t> SchemaVersion(Database* database) {
  const auto version = Number(database, "PRAGMA user_version");
  if (!version.ok()) return version;
  if (*version < 0 || *version > kNewest) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the state is of version ", *version, ", and this scheduler knows versions up to ", kNewest,
        ": start the scheduler that wrote it; or have that one write version ", kNewest,
        " (`warpline-scheduler state back --state_version=", kNewest,
        "`); or put back the copy of version ", kNewest, " that it kept"));
  }
  return version;
}

std::string KeptCopyOf(const std::string& path, int64_t version) {
  return absl::StrCat(path, ".version-", version);
}

absl::Status KeepCopy(const std::string& path, Database* database, int64_t version) {
  const std::string copy = KeptCopyOf(path, version);
  const std::string part = copy + ".part";
  if (unlink(part.c_str()) != 0 && errno != ENOENT) return Failed("replace", part);
  // SQLite makes the file, which only its owner may read.
  const mode_t before = umask(0077);
  absl::Status status = Statement(database->get(), "VACUUM INTO ?").Bind(part).Run();
  umask(before);
  if (status.ok()) status = Sync(part);
  if (status.ok() && rename(part.c_str(), copy.c_str()) != 0) status = Failed("replace", copy);
  if (status.ok()) status = Sync(copy.substr(0, copy.rfind('/') + 1));
  if (status.ok()) return status;
  (void)unlink(part.c_str());
  return absl::UnavailableError(absl::StrCat(
      "the state is of version ", version,
      ", of which a copy must be kept before it is changed, and that failed: ", status.message()));
}

absl::Status MigrateSchema(const std::string& path, Database* database) {
  auto version = SchemaVersion(database);
  if (!version.ok()) return version.status();
  if (*version > 0 && *version < kNewest) {
    if (auto status = KeepCopy(path, database, *version); !status.ok()) return status;
  }
  Transaction transaction(database);
  if (!transaction.status().ok()) return transaction.status();
  for (int64_t next = *version; next < kNewest; ++next) {
    if (auto status = database->Execute(kSteps[next].forth); !status.ok()) return status;
  }
  if (auto status = database->Execute(kIndexes); !status.ok()) return status;
  return transaction.Commit();
}

absl::StatusOr<std::vector<std::string>> LostInSchema(Database* database, int64_t version) {
  const auto current = SchemaVersion(database);
  if (!current.ok()) return current.status();
  std::vector<std::string> lost;
  for (int64_t step = *current - 1; step >= version; --step) {
    for (const Kept& kept : kSteps[step].kept) {
      if (kept.what == nullptr) continue;
      const auto count = Number(database, kept.count);
      if (!count.ok()) return count.status();
      if (*count > 0) lost.push_back(absl::StrCat(*count, " ", kept.what));
    }
  }
  return lost;
}

absl::Status BackToSchema(const std::string& path, Database* database, int64_t version) {
  const auto current = SchemaVersion(database);
  if (!current.ok()) return current.status();
  if (version < 1 || version > *current) {
    return absl::InvalidArgumentError(absl::StrCat("the state is of version ", *current,
                                                   ": it can go back to versions from 1 to that"));
  }
  if (version == *current) return absl::OkStatus();
  if (auto status = KeepCopy(path, database, *current); !status.ok()) return status;
  Transaction transaction(database);
  if (!transaction.status().ok()) return transaction.status();
  for (int64_t step = *current - 1; step >= version; --step) {
    if (auto status = database->Execute(kSteps[step].back); !status.ok()) return status;
  }
  return transaction.Commit();
}

}  // namespace warpline::scheduler
