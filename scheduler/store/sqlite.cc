#include "scheduler/store/sqlite.h"

#include <sqlite3.h>

#include "absl/strings/str_cat.h"

namespace warpline::scheduler {

Statement::Statement(sqlite3* db, const char* sql) : db_(db) {
  Note(sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr));
}

Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::Note(int code) {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE || !status_.ok()) return;
  status_ = absl::UnavailableError(absl::StrCat("state database: ", sqlite3_errmsg(db_)));
}

Statement& Statement::Bind(absl::string_view text) {
  if (status_.ok()) {
    Note(sqlite3_bind_text(statement_, ++bound_, text.data() == nullptr ? "" : text.data(),
                           static_cast<int>(text.size()), SQLITE_TRANSIENT));
  }
  return *this;
}

Statement& Statement::BindBlob(absl::string_view bytes) {
  if (status_.ok()) {
    Note(sqlite3_bind_blob(statement_, ++bound_, bytes.data() == nullptr ? "" : bytes.data(),
                           static_cast<int>(bytes.size()), SQLITE_TRANSIENT));
  }
  return *this;
}

bool Statement::Step() {
  if (!status_.ok()) return false;
  const int code = sqlite3_step(statement_);
  Note(code);
  return code == SQLITE_ROW;
}

absl::Status Statement::Run() {
  Step();
  return status_;
}

std::string Statement::Text(int column) const {
  const auto* text = sqlite3_column_text(statement_, column);
  return text == nullptr
             ? std::string()
             : std::string(reinterpret_cast<const char*>(text),
                           static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

std::string Statement::Blob(int column) const {
  const void* const bytes = sqlite3_column_blob(statement_, column);
  return bytes == nullptr
             ? std::string()
             : std::string(static_cast<const char*>(bytes),
                           static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path) {
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(
      path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  auto database = std::unique_ptr<Database>(new Database(db));
  if (code != SQLITE_OK) {
    return absl::UnavailableError(
        absl::StrCat("cannot open it: ", db == nullptr ? "no memory" : sqlite3_errmsg(db)));
  }
  sqlite3_busy_timeout(db, 2000);
  if (auto status = database->Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; "
                                      "PRAGMA trusted_schema=OFF");
      !status.ok()) {
    return status;
  }
  return database;
}

Database::~Database() { sqlite3_close_v2(db_); }

absl::Status Database::Execute(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("state database: ", sqlite3_errmsg(db_)));
}

Transaction::Transaction(Database* database)
    : database_(database), status_(database->Execute("BEGIN IMMEDIATE")) {
  done_ = !status_.ok();
}

Transaction::~Transaction() {
  if (!done_) (void)database_->Execute("ROLLBACK");
}

absl::Status Transaction::Commit() {
  if (!status_.ok()) return status_;
  status_ = database_->Execute("COMMIT");
  done_ = status_.ok();
  return status_;
}

}  // namespace warpline::scheduler
