#include "scheduler/sqlite_store.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lease/entitlement.h"
#include "scheduler/sqlite_schema.h"

namespace warpline::scheduler {
namespace {

constexpr char kLeaseColumns[] =
    "id, tenant, server, device, memory_bytes, program, pid, by_sessions, state, reason, "
    "created_ms, expires_ms, ends_ms, max_sessions, slice, slice_memory_bytes, "
    "slice_staging_bytes, slice_max_sessions, slice_max_handles, slice_max_module_bytes, "
    "slice_max_commands, slice_sm_percent, slice_launch_ms, slice_weight, slice_copy_weight, "
    "slice_priority, slice_period_ms, slice_budget_ms, slice_best_effort, end_cause";

// In the order of the columns of `tenants`.
Statement& BindTenant(const TenantRecord& tenant, Statement* statement) {
  return statement->Bind(tenant.name)
      .Bind(tenant.credential_hash)
      .Bind(tenant.memory_bytes)
      .Bind(tenant.max_leases)
      .Bind(tenant.max_lease_sessions)
      .Bind(tenant.max_seconds)
      .Bind(tenant.max_sessions)
      .Bind(tenant.rights)
      .Bind(tenant.tiers)
      .Bind(static_cast<uint32_t>(tenant.tier))
      .Bind(tenant.weight)
      .Bind(tenant.copy_weight)
      .Bind(tenant.priority)
      .Bind(absl::StrJoin(tenant.slices, ","))
      .Bind(tenant.parent)
      .Bind(tenant.reserved_bytes)
      .Bind(absl::StrJoin(tenant.namespaces, ","));
}

// A slice's name and shape, in the order of the columns of `slices` and of those at the end of
// `leases`.
Statement& BindSlice(const SliceRecord& slice, Statement* statement) {
  const SliceShape& shape = slice.shape;
  return statement->Bind(slice.name)
      .Bind(shape.memory_bytes)
      .Bind(shape.staging_bytes)
      .Bind(shape.max_sessions)
      .Bind(shape.max_handles)
      .Bind(shape.max_module_bytes)
      .Bind(shape.max_commands)
      .Bind(shape.sm_percent)
      .Bind(shape.launch_ms)
      .Bind(shape.weight)
      .Bind(shape.copy_weight)
      .Bind(shape.priority)
      .Bind(shape.period_ms)
      .Bind(shape.budget_ms)
      .Bind(shape.best_effort ? 1 : 0);
}

// Reads the same from the column `first` on.
SliceRecord ReadSlice(const Statement& row, int first) {
  const auto wide = [&](int i) { return static_cast<uint64_t>(row.Number(first + i)); };
  const auto narrow = [&](int i) { return static_cast<uint32_t>(row.Number(first + i)); };
  SliceRecord slice;
  slice.name = row.Text(first);
  slice.shape.memory_bytes = wide(1);
  slice.shape.staging_bytes = wide(2);
  slice.shape.max_sessions = narrow(3);
  slice.shape.max_handles = wide(4);
  slice.shape.max_module_bytes = wide(5);
  slice.shape.max_commands = narrow(6);
  slice.shape.sm_percent = narrow(7);
  slice.shape.launch_ms = wide(8);
  slice.shape.weight = narrow(9);
  slice.shape.copy_weight = narrow(10);
  slice.shape.priority = narrow(11);
  slice.shape.period_ms = narrow(12);
  slice.shape.budget_ms = narrow(13);
  slice.shape.best_effort = narrow(14) != 0;
  return slice;
}

LeaseRecord ReadLease(const Statement& row) {
  LeaseRecord lease;
  lease.id = row.Text(0);
  lease.tenant = row.Text(1);
  lease.server = row.Text(2);
  lease.devices = ParseDeviceNames(row.Text(3));
  lease.memory_bytes = static_cast<uint64_t>(row.Number(4));
  lease.program = row.Text(5);
  lease.pid = static_cast<uint32_t>(row.Number(6));
  lease.by_sessions = row.Number(7) != 0;
  lease.state = static_cast<LeaseState>(row.Number(8));
  lease.reason.text = row.Text(9);
  lease.created = absl::FromUnixMillis(row.Number(10));
  lease.expires = absl::FromUnixMillis(row.Number(11));
  if (row.Number(12) != 0) lease.ends = absl::FromUnixMillis(row.Number(12));
  lease.max_sessions = static_cast<uint32_t>(row.Number(13));
  lease.slice = ReadSlice(row, 14);
  lease.reason.cause = EndCauseOf(static_cast<uint32_t>(row.Number(29)));
  return lease;
}

absl::StatusOr<std::vector<LeaseRecord>> ReadLeases(Statement* row) {
  std::vector<LeaseRecord> leases;
  while (row->Step()) leases.push_back(ReadLease(*row));
  if (!row->status().ok()) return row->status();
  return leases;
}

}  // namespace

absl::Status ExplainStoreError(const std::string& path, const absl::Status& error) {
  // It says itself what can be done.
  if (absl::IsFailedPrecondition(error)) {
    return absl::Status(error.code(), absl::StrCat(path, ": ", error.message()));
  }
  return absl::Status(
      error.code(),
      absl::StrCat(
          "the state in ", path, " cannot be used (", error.message(),
          "): let the scheduler's user read and write it; or put back a copy, with no ", path,
          "-wal beside it; or move both away to start without tenants, servers and leases"));
}

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const std::string& path,
                                                               uint64_t epoch) {
  // Sets the mask before SQLite makes its files, which would otherwise be readable by others.
  const mode_t before = umask(0077);
  auto database = Database::Open(path);
  umask(before);
  if (!database.ok()) return ExplainStoreError(path, database.status());
  auto store = std::unique_ptr<SqliteStore>(new SqliteStore(path, *std::move(database), epoch));
  absl::Status status = store->Check();
  if (status.ok()) status = MigrateSchema(path, store->database_.get());
  if (!status.ok()) return ExplainStoreError(path, status);
  return store;
}

absl::Status SqliteStore::Check() {
  Statement statement(db(), "PRAGMA quick_check(1)");
  const std::string found = statement.Step() ? statement.Text(0) : "";
  if (!statement.status().ok()) return statement.status();
  return found == "ok" ? absl::OkStatus()
                       : absl::DataLossError(absl::StrCat("the file is damaged: ", found));
}

absl::Status SqliteStore::MustChange(const std::string& what) {
  return database_->changes() > 0 ? absl::OkStatus()
                                  : absl::NotFoundError(absl::StrCat("there is no ", what));
}

absl::Status SqliteStore::AddTenant(const TenantRecord& tenant) {
  Statement statement(db(),
                      "INSERT OR IGNORE INTO tenants VALUES "
                      "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const auto status = BindTenant(tenant, &statement).Run();
  if (!status.ok()) return status;
  return database_->changes() > 0
             ? absl::OkStatus()
             : absl::AlreadyExistsError(absl::StrCat("there is a tenant ", tenant.name));
}

absl::Status SqliteStore::UpdateTenant(const TenantRecord& tenant) {
  Statement statement(
      db(),
      "UPDATE tenants SET name = ?, credential_hash = ?, memory_bytes = ?, max_leases = ?, "
      "max_lease_sessions = ?, max_seconds = ?, max_sessions = ?, rights = ?, tiers = ?, "
      "tier = ?, weight = ?, copy_weight = ?, priority = ?, slices = ?, parent = ?, "
      "reserved_bytes = ?, namespaces = ? WHERE name = ?");
  const auto status = BindTenant(tenant, &statement).Bind(tenant.name).Run();
  return status.ok() ? MustChange(absl::StrCat("tenant ", tenant.name)) : status;
}

absl::Status SqliteStore::EndLeases(const char* column, const std::string& name,
                                    const LeaseEnd& end) {
  const std::string sql =
      absl::StrCat("UPDATE leases SET state = ?, reason = ?, end_cause = ?, expires_ms = ? ",
                   "WHERE state = ? AND ", column, " = ?");
  return Statement(db(), sql.c_str())
      .Bind(static_cast<int>(LeaseState::kRevoked))
      .Bind(end.reason.text)
      .Bind(static_cast<int>(end.reason.cause))
      .Bind(ToMs(end.forget))
      .Bind(static_cast<int>(LeaseState::kActive))
      .Bind(name)
      .Run();
}

absl::Status SqliteStore::RemoveTenant(const std::string& name, const LeaseEnd& end) {
  Transaction transaction(database_.get());
  if (!transaction.status().ok()) return transaction.status();
  auto status = Statement(db(), "DELETE FROM tenants WHERE name = ?").Bind(name).Run();
  if (status.ok()) status = MustChange(absl::StrCat("tenant ", name));
  if (status.ok()) status = EndLeases("tenant", name, end);
  return status.ok() ? transaction.Commit() : status;
}

absl::StatusOr<std::vector<TenantRecord>> SqliteStore::Tenants() {
  std::vector<TenantRecord> tenants;
  Statement row(db(),
                "SELECT name, credential_hash, memory_bytes, max_leases, max_lease_sessions, "
                "max_seconds, max_sessions, rights, tiers, tier, weight, copy_weight, "
                "priority, slices, parent, reserved_bytes, namespaces FROM tenants");
  while (row.Step()) {
    tenants.push_back({row.Text(0), row.Text(1), static_cast<uint64_t>(row.Number(2)),
                       static_cast<uint32_t>(row.Number(3)), static_cast<uint32_t>(row.Number(4)),
                       static_cast<uint64_t>(row.Number(5)), static_cast<uint32_t>(row.Number(6)),
                       static_cast<Rights>(row.Number(7)), static_cast<TierSet>(row.Number(8)),
                       static_cast<TierChoice>(row.Number(9)),
                       static_cast<uint32_t>(row.Number(10)), static_cast<uint32_t>(row.Number(11)),
                       static_cast<uint32_t>(row.Number(12)),
                       absl::StrSplit(row.Text(13), ',', absl::SkipEmpty()), row.Text(14),
                       static_cast<uint64_t>(row.Number(15)),
                       absl::StrSplit(row.Text(16), ',', absl::SkipEmpty())});
  }
  if (!row.status().ok()) return row.status();
  return tenants;
}

absl::Status SqliteStore::AddSlice(const SliceRecord& slice) {
  Statement statement(db(),
                      "INSERT OR IGNORE INTO slices VALUES "
                      "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const auto status = BindSlice(slice, &statement).Run();
  if (!status.ok()) return status;
  return database_->changes() > 0
             ? absl::OkStatus()
             : absl::AlreadyExistsError(absl::StrCat("there is a slice ", slice.name));
}

absl::Status SqliteStore::UpdateSlice(const SliceRecord& slice) {
  Statement statement(
      db(),
      "UPDATE slices SET name = ?, memory_bytes = ?, staging_bytes = ?, max_sessions = ?, "
      "max_handles = ?, max_module_bytes = ?, max_commands = ?, sm_percent = ?, launch_ms = ?, "
      "weight = ?, copy_weight = ?, priority = ?, period_ms = ?, budget_ms = ?, best_effort = ? "
      "WHERE name = ?");
  const auto status = BindSlice(slice, &statement).Bind(slice.name).Run();
  return status.ok() ? MustChange(absl::StrCat("slice ", slice.name)) : status;
}

absl::Status SqliteStore::RemoveSlice(const std::string& name) {
  const auto status = Statement(db(), "DELETE FROM slices WHERE name = ?").Bind(name).Run();
  return status.ok() ? MustChange(absl::StrCat("slice ", name)) : status;
}

absl::StatusOr<std::vector<SliceRecord>> SqliteStore::Slices() {
  std::vector<SliceRecord> slices;
  Statement row(db(),
                "SELECT name, memory_bytes, staging_bytes, max_sessions, max_handles, "
                "max_module_bytes, max_commands, sm_percent, launch_ms, weight, copy_weight, "
                "priority, period_ms, budget_ms, best_effort FROM slices ORDER BY name");
  while (row.Step()) slices.push_back(ReadSlice(row, 0));
  if (!row.status().ok()) return row.status();
  return slices;
}

absl::Status SqliteStore::PutServer(const ServerRecord& server) {
  Transaction transaction(database_.get());
  if (!transaction.status().ok()) return transaction.status();
  auto status = Statement(db(), "DELETE FROM servers WHERE name = ?").Bind(server.name).Run();
  if (!status.ok()) return status;
  status = Statement(db(), "INSERT INTO servers VALUES (?, ?, ?)")
               .Bind(server.name)
               .Bind(server.endpoint)
               .Bind(server.version)
               .Run();
  if (!status.ok()) return status;
  int place = 0;
  for (const DeviceRecord& device : server.devices) {
    status = Statement(db(), "INSERT INTO devices VALUES (?, ?, ?, ?, ?, ?)")
                 .Bind(server.name)
                 .Bind(place++)
                 .Bind(device.uuid)
                 .Bind(device.name)
                 .Bind(device.backend)
                 .Bind(device.capacity_bytes)
                 .Run();
    if (!status.ok()) return status;
  }
  return transaction.Commit();
}

absl::Status SqliteStore::DeleteServer(const std::string& name) {
  auto status = Statement(db(),
                          "DELETE FROM audit_heads WHERE server = ? AND server NOT IN "
                          "(SELECT name FROM server_credentials)")
                    .Bind(name)
                    .Run();
  if (!status.ok()) return status;
  return Statement(db(), "DELETE FROM servers WHERE name = ?").Bind(name).Run();
}

absl::Status SqliteStore::ForgetServer(const std::string& name) {
  Transaction transaction(database_.get());
  if (!transaction.status().ok()) return transaction.status();
  const absl::Status status = DeleteServer(name);
  return status.ok() ? transaction.Commit() : status;
}

absl::Status SqliteStore::RemoveServer(const std::string& name, const LeaseEnd& end) {
  Transaction transaction(database_.get());
  if (!transaction.status().ok()) return transaction.status();
  auto status = Statement(db(), "DELETE FROM server_credentials WHERE name = ?").Bind(name).Run();
  if (!status.ok()) return status;
  bool known = database_->changes() > 0;
  if (status = DeleteServer(name); !status.ok()) return status;
  known = known || database_->changes() > 0;
  if (!known) return absl::NotFoundError(absl::StrCat("there is no server ", name));
  if (status = RemoveCordon(name); !status.ok()) return status;
  if (status = EndLeases("server", name, end); !status.ok()) return status;
  return transaction.Commit();
}

absl::Status SqliteStore::AddServerCredential(const std::string& server, const std::string& hash) {
  const auto status = Statement(db(), "INSERT OR IGNORE INTO server_credentials VALUES (?, ?)")
                          .Bind(server)
                          .Bind(hash)
                          .Run();
  if (!status.ok()) return status;
  return database_->changes() > 0
             ? absl::OkStatus()
             : absl::AlreadyExistsError(absl::StrCat("server ", server, " has a credential"));
}

absl::Status SqliteStore::UpdateServerCredential(const std::string& server,
                                                 const std::string& hash) {
  const auto status =
      Statement(db(), "UPDATE server_credentials SET credential_hash = ? WHERE name = ?")
          .Bind(hash)
          .Bind(server)
          .Run();
  return status.ok() ? MustChange(absl::StrCat("server ", server, " with a credential")) : status;
}

absl::StatusOr<std::string> SqliteStore::ServerCredential(const std::string& server) {
  Statement row(db(), "SELECT credential_hash FROM server_credentials WHERE name = ?");
  row.Bind(server);
  std::string hash;
  if (row.Step()) hash = row.Text(0);
  if (!row.status().ok()) return row.status();
  return hash;
}

absl::StatusOr<std::vector<std::string>> SqliteStore::ServersWithCredential() {
  std::vector<std::string> names;
  Statement row(db(), "SELECT name FROM server_credentials");
  while (row.Step()) names.push_back(row.Text(0));
  if (!row.status().ok()) return row.status();
  return names;
}

absl::Status SqliteStore::PutCordon(const CordonRecord& cordon) {
  return Statement(db(), "INSERT OR REPLACE INTO cordons VALUES (?, ?, ?)")
      .Bind(cordon.server)
      .Bind(cordon.reason)
      .Bind(ToMs(cordon.drained))
      .Run();
}

absl::Status SqliteStore::RemoveCordon(const std::string& server) {
  return Statement(db(), "DELETE FROM cordons WHERE server = ?").Bind(server).Run();
}

absl::StatusOr<std::vector<CordonRecord>> SqliteStore::Cordons() {
  std::vector<CordonRecord> cordons;
  Statement row(db(), "SELECT server, reason, drained_ms FROM cordons");
  while (row.Step()) {
    CordonRecord cordon{row.Text(0), row.Text(1)};
    if (row.Number(2) != 0) cordon.drained = absl::FromUnixMillis(row.Number(2));
    cordons.push_back(std::move(cordon));
  }
  if (!row.status().ok()) return row.status();
  return cordons;
}

absl::StatusOr<std::vector<ServerRecord>> SqliteStore::Servers() {
  std::vector<ServerRecord> servers;
  Statement row(db(), "SELECT name, endpoint, version FROM servers");
  while (row.Step()) servers.push_back({row.Text(0), row.Text(1), row.Text(2), {}});
  if (!row.status().ok()) return row.status();
  for (ServerRecord& server : servers) {
    Statement device(db(),
                     "SELECT uuid, name, backend, capacity_bytes FROM devices WHERE server = ? "
                     "ORDER BY place");
    device.Bind(server.name);
    while (device.Step()) {
      server.devices.push_back({device.Text(0), device.Text(1), device.Text(2),
                                static_cast<uint64_t>(device.Number(3))});
    }
    if (!device.status().ok()) return device.status();
  }
  return servers;
}

absl::Status SqliteStore::PutAuditHeads(const std::vector<AuditHead>& heads) {
  Transaction transaction(database_.get());
  if (!transaction.status().ok()) return transaction.status();
  for (const AuditHead& head : heads) {
    const auto status = Statement(db(), "INSERT OR REPLACE INTO audit_heads VALUES (?, ?, ?)")
                            .Bind(head.server)
                            .Bind(head.head)
                            .Bind(head.lost)
                            .Run();
    if (!status.ok()) return status;
  }
  return transaction.Commit();
}

absl::StatusOr<std::vector<AuditHead>> SqliteStore::AuditHeads() {
  std::vector<AuditHead> heads;
  Statement row(db(), "SELECT server, head, lost FROM audit_heads");
  while (row.Step()) heads.push_back({row.Text(0), row.Text(1), row.Text(2)});
  if (!row.status().ok()) return row.status();
  return heads;
}

absl::Status SqliteStore::ExtendLeases(absl::Time now, absl::Duration ttl) {
  return Statement(db(),
                   "UPDATE leases SET expires_ms = CASE WHEN ends_ms <> 0 AND ends_ms < ?1 "
                   "THEN ends_ms ELSE ?1 END WHERE state = ?2")
      .Bind(ToMs(now + ttl))
      .Bind(static_cast<int>(LeaseState::kActive))
      .Run();
}

absl::Status SqliteStore::AddLease(const LeaseRecord& lease) {
  Statement statement(db(),
                      "INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
                      "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  statement.Bind(lease.id)
      .Bind(lease.tenant)
      .Bind(lease.server)
      .Bind(FormatDeviceNames(lease.devices))
      .Bind(lease.memory_bytes)
      .Bind(lease.program)
      .Bind(lease.pid)
      .Bind(lease.by_sessions ? 1 : 0)
      .Bind(static_cast<int>(lease.state))
      .Bind(lease.reason.text)
      .Bind(ToMs(lease.created))
      .Bind(ToMs(lease.expires))
      .Bind(ToMs(lease.ends))
      .Bind(lease.max_sessions);
  return BindSlice(lease.slice, &statement).Bind(static_cast<int>(lease.reason.cause)).Run();
}

absl::Status SqliteStore::UpdateLease(const LeaseRecord& lease) {
  const auto status =
      Statement(db(),
                "UPDATE leases SET by_sessions = ?, state = ?, reason = ?, end_cause = ?, "
                "expires_ms = ? WHERE id = ?")
          .Bind(lease.by_sessions ? 1 : 0)
          .Bind(static_cast<int>(lease.state))
          .Bind(lease.reason.text)
          .Bind(static_cast<int>(lease.reason.cause))
          .Bind(ToMs(lease.expires))
          .Bind(lease.id)
          .Run();
  return status.ok() ? MustChange(absl::StrCat("lease ", lease.id)) : status;
}

absl::Status SqliteStore::RemoveLease(const std::string& id) {
  return Statement(db(), "DELETE FROM leases WHERE id = ?").Bind(id).Run();
}

absl::StatusOr<std::optional<LeaseRecord>> SqliteStore::FindLease(const std::string& id) {
  const std::string sql = absl::StrCat("SELECT ", kLeaseColumns, " FROM leases WHERE id = ?");
  Statement row(db(), sql.c_str());
  row.Bind(id);
  if (row.Step()) return std::optional<LeaseRecord>(ReadLease(row));
  if (!row.status().ok()) return row.status();
  return std::optional<LeaseRecord>();
}

absl::StatusOr<std::vector<LeaseRecord>> SqliteStore::Leases() {
  const std::string sql =
      absl::StrCat("SELECT ", kLeaseColumns, " FROM leases ORDER BY created_ms, id");
  Statement row(db(), sql.c_str());
  return ReadLeases(&row);
}

absl::StatusOr<std::vector<LeaseRecord>> SqliteStore::ActiveLeases() {
  const std::string sql = absl::StrCat("SELECT ", kLeaseColumns, " FROM leases WHERE state = ?");
  Statement row(db(), sql.c_str());
  row.Bind(static_cast<int>(LeaseState::kActive));
  return ReadLeases(&row);
}

absl::StatusOr<std::vector<LeaseRecord>> SqliteStore::LeasesExpiredBy(absl::Time time) {
  const std::string sql =
      absl::StrCat("SELECT ", kLeaseColumns, " FROM leases WHERE expires_ms <= ?");
  Statement row(db(), sql.c_str());
  row.Bind(ToMs(time));
  return ReadLeases(&row);
}

absl::StatusOr<std::vector<LeaseRecord>> SqliteStore::EndedLeasesOn(const std::string& server) {
  const std::string sql =
      absl::StrCat("SELECT ", kLeaseColumns, " FROM leases WHERE server = ? AND state IN (?, ?)");
  Statement row(db(), sql.c_str());
  row.Bind(server)
      .Bind(static_cast<int>(LeaseState::kRevoked))
      .Bind(static_cast<int>(LeaseState::kReleased));
  return ReadLeases(&row);
}

absl::StatusOr<std::vector<std::string>> SqliteStore::EndedLeases(const std::string& tenant) {
  std::vector<std::string> ids;
  Statement row(db(),
                "SELECT id FROM leases WHERE state IN (?, ?) AND tenant = ? ORDER BY expires_ms");
  row.Bind(static_cast<int>(LeaseState::kRevoked))
      .Bind(static_cast<int>(LeaseState::kReleased))
      .Bind(tenant);
  while (row.Step()) ids.push_back(row.Text(0));
  if (!row.status().ok()) return row.status();
  return ids;
}

}  // namespace warpline::scheduler
