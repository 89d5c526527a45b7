// A thin wrapper of SQLite: one connection, and prepared statements that finalize themselves.
#ifndef WARPLINE_SCHEDULER_STORE_SQLITE_H_
#define WARPLINE_SCHEDULER_STORE_SQLITE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sqlite3;
struct sqlite3_stmt;

namespace warpline::scheduler {

// A statement with its parameters. Bind the parameters in order, then Step() through the rows.
// status() keeps the first error of preparing, binding or stepping. Thread-compatible.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(absl::string_view text);
  Statement& BindBlob(absl::string_view bytes);

  // Returns true for a row, and false at the end and after an error.
  bool Step();
  // Runs a statement that has no rows.
  absl::Status Run();

  // Return a column of the current row.
  std::string Text(int column) const;
  std::string Blob(int column) const;

  const absl::Status& status() const { return status_; }

 private:
  void Note(int code);

  sqlite3* const db_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
  absl::Status status_;
};

// A connection to a database file. Thread-compatible.
class Database {
 public:
  // Opens or creates the file, in WAL mode with every commit on the disk. UNAVAILABLE, saying why
  // but not naming the file, when that fails.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path);
  ~Database();

  sqlite3* get() const { return db_; }
  absl::Status Execute(const char* sql);

 private:
  explicit Database(sqlite3* db) : db_(db) {}
  sqlite3* const db_;
};

// Begins with BEGIN IMMEDIATE, and rolls back unless Commit() succeeded.
class Transaction {
 public:
  explicit Transaction(Database* database);
  ~Transaction();
  absl::Status Commit();
  const absl::Status& status() const { return status_; }

 private:
  Database* const database_;
  absl::Status status_;
  bool done_ = false;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STORE_SQLITE_H_
