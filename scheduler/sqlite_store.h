// The state of a scheduler that is the only one, in a file of SQLite.
#ifndef WARPLINE_SCHEDULER_SQLITE_STORE_H_
#define WARPLINE_SCHEDULER_SQLITE_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "scheduler/records.h"
#include "scheduler/sqlite.h"
#include "scheduler/store.h"

namespace warpline::scheduler {

// Puts an `error` of reading or writing the state in the file `path` into words for the person that
// starts the scheduler: names the file and says what can be done.
absl::Status ExplainStoreError(const std::string& path, const absl::Status& error);

// Thread-compatible.
class SqliteStore : public Store {
 public:
  // FAILED_PRECONDITION for the state of a newer version, DATA_LOSS for a file that is damaged,
  // UNAVAILABLE for one that cannot be opened. The message is that of ExplainStoreError().
  // `epoch` is that of a state that was in etcd before: no smaller than any that servers have seen.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& path,
                                                           uint64_t epoch = 0);

  absl::Status Explain(const absl::Status& error) const override {
    return ExplainStoreError(path_, error);
  }
  uint64_t epoch() const override { return epoch_; }
  uint64_t confirmations() const override { return 0; }
  absl::Status ConfirmSince(uint64_t) override { return absl::OkStatus(); }

  absl::Status AddTenant(const TenantRecord& tenant) override;
  absl::Status UpdateTenant(const TenantRecord& tenant) override;
  absl::Status RemoveTenant(const std::string& name, const LeaseEnd& end) override;
  absl::StatusOr<std::vector<TenantRecord>> Tenants() override;
  absl::Status AddSlice(const SliceRecord& slice) override;
  absl::Status UpdateSlice(const SliceRecord& slice) override;
  absl::Status RemoveSlice(const std::string& name) override;
  absl::StatusOr<std::vector<SliceRecord>> Slices() override;
  absl::Status PutServer(const ServerRecord& server) override;
  absl::Status ForgetServer(const std::string& name) override;
  absl::Status RemoveServer(const std::string& name, const LeaseEnd& end) override;
  absl::StatusOr<std::vector<ServerRecord>> Servers() override;
  absl::Status AddServerCredential(const std::string& server, const std::string& hash) override;
  absl::Status UpdateServerCredential(const std::string& server, const std::string& hash) override;
  absl::StatusOr<std::string> ServerCredential(const std::string& server) override;
  absl::StatusOr<std::vector<std::string>> ServersWithCredential() override;
  absl::Status PutCordon(const CordonRecord& cordon) override;
  absl::Status RemoveCordon(const std::string& server) override;
  absl::StatusOr<std::vector<CordonRecord>> Cordons() override;
  absl::Status PutAuditHeads(const std::vector<AuditHead>& heads) override;
  absl::StatusOr<std::vector<AuditHead>> AuditHeads() override;
  absl::Status ExtendLeases(absl::Time now, absl::Duration ttl) override;
  absl::Status AddLease(const LeaseRecord& lease) override;
  absl::Status UpdateLease(const LeaseRecord& lease) override;
  absl::Status RemoveLease(const std::string& id) override;
  absl::StatusOr<std::optional<LeaseRecord>> FindLease(const std::string& id) override;
  absl::StatusOr<std::vector<LeaseRecord>> Leases() override;
  absl::StatusOr<std::vector<LeaseRecord>> ActiveLeases() override;
  absl::StatusOr<std::vector<std::string>> EndedLeases(const std::string& tenant) override;
  absl::StatusOr<std::vector<LeaseRecord>> EndedLeasesOn(const std::string& server) override;
  absl::StatusOr<std::vector<LeaseRecord>> LeasesExpiredBy(absl::Time time) override;

 private:
  SqliteStore(std::string path, std::unique_ptr<Database> database, uint64_t epoch)
      : path_(std::move(path)), database_(std::move(database)), epoch_(epoch) {}
  // Returns DATA_LOSS unless the whole file is sound: damage may lie in a place that is not read
  // for months.
  absl::Status Check();
  sqlite3* db() const { return database_->get(); }
  absl::Status MustChange(const std::string& what);
  // What ForgetServer() does, within a transaction.
  absl::Status DeleteServer(const std::string& name);
  // `column` is a column of the table of leases: "tenant" or "server".
  absl::Status EndLeases(const char* column, const std::string& name, const LeaseEnd& end);

  const std::string path_;
  const std::unique_ptr<Database> database_;
  const uint64_t epoch_;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_SQLITE_STORE_H_
