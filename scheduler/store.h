// The scheduler's state on disk, in SQLite. Every change is on the disk when its call returns, and
// is there whole or not at all, so that a scheduler that is killed at any moment goes on from its
// last answer.
#ifndef WARPLINE_SCHEDULER_STORE_H_
#define WARPLINE_SCHEDULER_STORE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "scheduler/records.h"
#include "scheduler/sqlite.h"

namespace warpline::scheduler {

// What becomes of leases that end together.
struct LeaseEnd {
  std::string reason;
  absl::Time forget;
};

// `error` of reading or writing the state in the file `path`, for who starts the scheduler: names
// the file and says what can be done.
absl::Status ExplainStoreError(const std::string& path, const absl::Status& error);

// Thread-compatible. Any call may return UNAVAILABLE when the disk fails; nothing has changed then.
class Store {
 public:
  // FAILED_PRECONDITION for the state of a newer version, DATA_LOSS for a file that is damaged,
  // UNAVAILABLE for one that cannot be opened; as ExplainStoreError() puts it.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path);

  const std::string& path() const { return path_; }

  // ALREADY_EXISTS, NOT_FOUND.
  absl::Status AddTenant(const TenantRecord& tenant);
  absl::Status UpdateTenant(const TenantRecord& tenant);
  // Also ends the tenant's active leases as `end` says.
  absl::Status RemoveTenant(const std::string& name, const LeaseEnd& end);
  absl::StatusOr<std::vector<TenantRecord>> Tenants();

  // Adds or replaces.
  absl::Status PutServer(const ServerRecord& server);
  // It may register again.
  absl::Status ForgetServer(const std::string& name);
  // With its credential, and ends its active leases as `end` says. NOT_FOUND for a server that has
  // neither registered nor a credential.
  absl::Status RemoveServer(const std::string& name, const LeaseEnd& end);
  absl::StatusOr<std::vector<ServerRecord>> Servers();

  // The hashes of servers' credentials. ALREADY_EXISTS, NOT_FOUND.
  absl::Status AddServerCredential(const std::string& server, const std::string& hash);
  absl::Status UpdateServerCredential(const std::string& server, const std::string& hash);
  // Empty for a server that has none.
  absl::StatusOr<std::string> ServerCredential(const std::string& server);
  // The servers that have one.
  absl::StatusOr<std::vector<std::string>> ServersWithCredential();

  absl::Status AddLease(const LeaseRecord& lease);
  // State, reason, expiry and holder. NOT_FOUND.
  absl::Status UpdateLease(const LeaseRecord& lease);
  absl::Status RemoveLease(const std::string& id);
  absl::StatusOr<std::optional<LeaseRecord>> FindLease(const std::string& id);
  absl::StatusOr<std::vector<LeaseRecord>> Leases();

 private:
  Store(std::string path, std::unique_ptr<Database> database)
      : path_(std::move(path)), database_(std::move(database)) {}
  // DATA_LOSS unless the whole file is sound: damage may lie where nothing reads for months.
  absl::Status Check();
  absl::Status Migrate();
  sqlite3* db() const { return database_->get(); }
  absl::Status MustChange(const std::string& what);
  // `column` of the leases is "tenant" or "server".
  absl::Status EndLeases(const char* column, const std::string& name, const LeaseEnd& end);

  const std::string path_;
  const std::unique_ptr<Database> database_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STORE_H_
