// The scheduler's state on disk, in SQLite. Every change is on the disk when its call returns,
// whole or not at all, so that a scheduler that is killed at any moment goes on from its last
// answer.
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

// Why leases that end together end, and when they are forgotten.
struct LeaseEnd {
  std::string reason;
  absl::Time forget;
};

// Puts an `error` of reading or writing the state in the file `path` into words for the person that
// starts the scheduler: names the file and says what can be done.
absl::Status ExplainStoreError(const std::string& path, const absl::Status& error);

// Thread-compatible. Any call may return UNAVAILABLE when the disk fails; nothing has changed then.
class Store {
 public:
  // FAILED_PRECONDITION for the state of a newer version, DATA_LOSS for a file that is damaged,
  // UNAVAILABLE for one that cannot be opened. The message is that of ExplainStoreError().
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path);

  const std::string& path() const { return path_; }

  // Adding returns ALREADY_EXISTS for a known name, and updating NOT_FOUND for an unknown one.
  absl::Status AddTenant(const TenantRecord& tenant);
  absl::Status UpdateTenant(const TenantRecord& tenant);
  // Removes the tenant, and ends its active leases as `end` says.
  absl::Status RemoveTenant(const std::string& name, const LeaseEnd& end);
  absl::StatusOr<std::vector<TenantRecord>> Tenants();

  // Adds the server, or replaces what is known of it.
  absl::Status PutServer(const ServerRecord& server);
  // Forgets the server, which may register again, and the head of its audit unless it has a
  // credential.
  absl::Status ForgetServer(const std::string& name);
  // Removes the server with its credential, and ends its active leases as `end` says. NOT_FOUND for
  // a server that has neither registered nor a credential.
  absl::Status RemoveServer(const std::string& name, const LeaseEnd& end);
  absl::StatusOr<std::vector<ServerRecord>> Servers();

  // Store the hash of a server's credential. Adding returns ALREADY_EXISTS, and updating NOT_FOUND.
  absl::Status AddServerCredential(const std::string& server, const std::string& hash);
  absl::Status UpdateServerCredential(const std::string& server, const std::string& hash);
  // Returns an empty text for a server that has no credential.
  absl::StatusOr<std::string> ServerCredential(const std::string& server);
  // The names of the servers that have a credential.
  absl::StatusOr<std::vector<std::string>> ServersWithCredential();

  // Adds these, or replaces what was known of their servers.
  absl::Status PutAuditHeads(const std::vector<AuditHead>& heads);
  absl::StatusOr<std::vector<AuditHead>> AuditHeads();

  absl::Status AddLease(const LeaseRecord& lease);
  // Updates state, reason, expiry and holder. NOT_FOUND for an unknown lease.
  absl::Status UpdateLease(const LeaseRecord& lease);
  absl::Status RemoveLease(const std::string& id);
  absl::StatusOr<std::optional<LeaseRecord>> FindLease(const std::string& id);
  absl::StatusOr<std::vector<LeaseRecord>> Leases();
  // Those of one kind, found without looking at the others.
  absl::StatusOr<std::vector<LeaseRecord>> ActiveLeases();
  // The ids of those that have ended, the one that is forgotten first at the front.
  absl::StatusOr<std::vector<std::string>> EndedLeases(const std::string& tenant);
  // Those of a server that have ended.
  absl::StatusOr<std::vector<LeaseRecord>> EndedLeasesOn(const std::string& server);
  // Of any state. A lease expires no later than it ends.
  absl::StatusOr<std::vector<LeaseRecord>> LeasesExpiredBy(absl::Time time);

 private:
  Store(std::string path, std::unique_ptr<Database> database)
      : path_(std::move(path)), database_(std::move(database)) {}
  // Returns DATA_LOSS unless the whole file is sound: damage may lie in a place that is not read
  // for months.
  absl::Status Check();
  absl::Status Migrate();
  sqlite3* db() const { return database_->get(); }
  absl::Status MustChange(const std::string& what);
  // What ForgetServer() does, within a transaction.
  absl::Status DeleteServer(const std::string& name);
  // `column` is a column of the table of leases: "tenant" or "server".
  absl::Status EndLeases(const char* column, const std::string& name, const LeaseEnd& end);

  const std::string path_;
  const std::unique_ptr<Database> database_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STORE_H_
