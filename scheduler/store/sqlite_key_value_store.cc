#include "scheduler/store/sqlite_key_value_store.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"

namespace warpline::scheduler {
namespace {

constexpr char kTable[] =
    "CREATE TABLE records (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";

}  // namespace

absl::Status SqliteKeyValueStore::Explain(const absl::Status& error) const {
  // It says itself what can be done.
  if (absl::IsFailedPrecondition(error)) {
    return absl::Status(error.code(), absl::StrCat(path_, ": ", error.message()));
  }
  return absl::Status(
      error.code(),
      absl::StrCat(
          "the state in ", path_, " cannot be used (", error.message(),
          "): let the scheduler's user read and write it; or put back a copy, with no ", path_,
          "-wal beside it; or move both away to start without tenants, servers and leases"));
}

absl::StatusOr<std::unique_ptr<SqliteKeyValueStore>> SqliteKeyValueStore::Open(
    const std::string& path, uint64_t epoch) {
  auto store = std::unique_ptr<SqliteKeyValueStore>(new SqliteKeyValueStore(path, epoch));
  // Sets the mask before SQLite makes its files, which would otherwise be readable by others.
  const mode_t before = umask(0077);
  auto database = Database::Open(path);
  umask(before);
  if (!database.ok()) return store->Explain(database.status());
  store->database_ = *std::move(database);
  absl::Status status = store->CheckFile();
  if (status.ok()) status = store->MakeTable();
  if (!status.ok()) return store->Explain(status);
  return store;
}

absl::Status SqliteKeyValueStore::CheckFile() {
  Statement statement(database_->get(), "PRAGMA quick_check(1)");
  const std::string found = statement.Step() ? statement.Text(0) : "";
  if (!statement.status().ok()) return statement.status();
  return found == "ok" ? absl::OkStatus()
                       : absl::DataLossError(absl::StrCat("the file is damaged: ", found));
}

absl::Status SqliteKeyValueStore::MakeTable() {
  Statement schema(database_->get(), "PRAGMA schema_version");
  const bool is_new = schema.Step() && schema.Text(0) == "0";
  if (!schema.status().ok()) return schema.status();
  if (is_new) return database_->Execute(kTable);
  Statement table(database_->get(), "SELECT 1 FROM sqlite_master WHERE name = 'records'");
  if (table.Step()) return absl::OkStatus();
  if (!table.status().ok()) return table.status();
  return absl::DataLossError("it has no table of records, so it is no state");
}

absl::StatusOr<std::optional<std::string>> SqliteKeyValueStore::Get(const std::string& key) {
  Statement row(database_->get(), "SELECT value FROM records WHERE key = ?");
  if (row.Bind(key).Step()) return row.Blob(0);
  if (!row.status().ok()) return row.status();
  return std::nullopt;
}

absl::Status SqliteKeyValueStore::ForEach(const Visitor& visit) {
  Statement row(database_->get(), "SELECT key, value FROM records ORDER BY key");
  while (row.Step()) {
    if (auto status = visit(row.Text(0), row.Blob(1)); !status.ok()) return status;
  }
  return row.status();
}

absl::Status SqliteKeyValueStore::Write(const WriteBatch& batch) {
  if (auto status = CheckBatch(batch); !status.ok()) return status;
  Transaction transaction(database_.get());
  if (!transaction.status().ok()) return transaction.status();
  for (const auto& [key, value] : batch.puts) {
    const auto status = Statement(database_->get(), "INSERT OR REPLACE INTO records VALUES (?, ?)")
                            .Bind(key)
                            .BindBlob(value)
                            .Run();
    if (!status.ok()) return status;
  }
  for (const std::string& key : batch.deletes) {
    const auto status =
        Statement(database_->get(), "DELETE FROM records WHERE key = ?").Bind(key).Run();
    if (!status.ok()) return status;
  }
  return transaction.Commit();
}

}  // namespace warpline::scheduler
