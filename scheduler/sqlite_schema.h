// The versions of the state in SQLite: how each becomes the next one, and the one before again.
//
// The version is the file's `user_version`. Whoever opens the state brings it to the newest version
// that it knows, in one transaction, and keeps a copy of what there was before; a scheduler of the
// version before then refuses it. BackToSchema() is the way back: it keeps what has changed since,
// but for what the former version has no place for.
#ifndef WARPLINE_SCHEDULER_SQLITE_SCHEMA_H_
#define WARPLINE_SCHEDULER_SQLITE_SCHEMA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/sqlite.h"

namespace warpline::scheduler {

// The version that this scheduler writes.
int64_t NewestSchema();

// The version of a state; 0 for an empty file. FAILED_PRECONDITION, saying what to do, for one that
// is newer than this scheduler knows.
absl::StatusOr<int64_t> SchemaVersion(Database* database);

// Where the copy of the state in the file `path` is kept that was made before it was changed from
// `version`.
std::string KeptCopyOf(const std::string& path, int64_t version);

// Keeps such a copy, in place of an earlier one. UNAVAILABLE, and nothing has changed, when it
// cannot be written. Nobody else may write to the state meanwhile.
absl::Status KeepCopy(const std::string& path, Database* database, int64_t version);

// Brings the state in the file `path`, which `database` is open on, to the newest version: whole or
// not at all, whenever this process is killed. Keeps a copy first if the state is of an older one.
// Errors are those of SchemaVersion() and KeepCopy(), and UNAVAILABLE.
absl::Status MigrateSchema(const std::string& path, Database* database);

// What BackToSchema() drops, in words and with how many there are, such as "3 slices"; empty when
// it drops nothing.
absl::StatusOr<std::vector<std::string>> LostInSchema(Database* database, int64_t version);

// Brings the state back to `version`, whole or not at all, and keeps a copy of what there was.
// INVALID_ARGUMENT for a version that is not between 1 and that of the state.
absl::Status BackToSchema(const std::string& path, Database* database, int64_t version);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SQLITE_SCHEMA_H_
