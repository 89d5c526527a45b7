// The audit of a running server: takes records from any thread, and has a thread of its own write
// them.
//
//   auto audit = AuditLog::Open({.writer = {.dir = "/var/lib/warpline/audit"}});
//   (*audit)->Add({.event = Event::kSessionOpened, .tenant = "a", .session = 7});
//
// Nobody fills the disk with it: records that a tenant or peer can cause again and again have
// budgets, by tenant and for all together. What is left out is counted, in the next record of its
// kind (`left_out`) and in records of its own (audit.left_out).
//
// When the disk does not take a record, it is kept and tried again every second. When too many
// wait, further ones are lost and counted; a record says how many once there is room (audit.lost).
#ifndef WARPLINE_AUDIT_AUDIT_LOG_H_
#define WARPLINE_AUDIT_AUDIT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "audit/audit_writer.h"
#include "audit/record.h"
#include "common/log/keyed_log_budget.h"
#include "common/log/log_budget.h"
#include "common/mutex.h"

namespace warpline::audit {

// The budgets, by Bound. Their names are the `kind` of an audit.left_out record.
KeyedLogBudgetOptions BudgetOptions();

// Says an anchor in the system's log (syslog(3), facility authpriv) and in this process's.
void AnchorInLogs(const std::string& dir, const Anchor& anchor);

struct AuditLogOptions {
  AuditWriterOptions writer = {};
  // Where nothing can be recorded, nothing new is to happen: see takes().
  bool required = false;
  // Names what the program refuses while records cannot be written. The log says it.
  std::string refuses = "new sessions and operators' actions";
  // The records that wait for the disk. A quarter of the room is kept for those that ask no budget
  // (Bound::kNone), so that tenants cannot make an operator's record be lost.
  size_t max_waiting = 8192;
  // How often the head is said elsewhere, if it has moved. It is also said at the end.
  absl::Duration anchor_interval = absl::Minutes(5);
  std::function<void(const std::string& dir, const Anchor& anchor)> say_anchor = &AnchorInLogs;
  KeyedLogBudgetOptions budget = BudgetOptions();
};

class AuditLog;

// Opens the record where `options` name a folder. Null where they do not, or where it cannot be had
// and is not required; the log says so. Errors as AuditWriter::Open() where it is required.
absl::StatusOr<std::unique_ptr<AuditLog>> OpenAudit(const AuditLogOptions& options);

// Thread-safe.
class AuditLog {
 public:
  // Errors as AuditWriter::Open().
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(AuditLogOptions options);
  // Writes what waits, as far as the disk takes it, and says the last anchor.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // Adds a record, and never waits for the disk. False when it is left out or lost.
  bool Add(Record record);

  // False while records are required and the disk does not take them: no session may begin. A disk
  // that has become full is noticed when the next record is written; until then records wait.
  bool takes() const;
  // Returns false while nothing may be done for operators. Room is kept for the records of what
  // they do, so this is true longer than takes().
  bool takes_operators() const;
  // The last line that is in its file. Until the first has been written after the start, the one
  // that was there.
  Anchor head() const;
  uint64_t lost() const;

 private:
  AuditLog(AuditLogOptions options, std::unique_ptr<AuditWriter> writer);

  void Run();
  // Writes these as far as the disk takes them, and removes what it took.
  void Write(std::deque<Record>* records) ABSL_LOCKS_EXCLUDED(mu_);
  // Adds records about what was left out or lost.
  void AddCounts(std::deque<Record>* records) ABSL_LOCKS_EXCLUDED(mu_);
  void SayAnchor() ABSL_LOCKS_EXCLUDED(mu_);
  void SetFailing(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if one more record with this bound may wait.
  bool HasRoom(Bound bound) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const AuditLogOptions options_;
  KeyedLogBudget budget_;
  // Of the thread.
  const std::unique_ptr<AuditWriter> writer_;
  uint64_t anchored_ = 0;
  LogBudget log_;

  mutable Mutex mu_;
  CondVar changed_;
  std::deque<Record> waiting_ ABSL_GUARDED_BY(mu_);
  size_t writing_ ABSL_GUARDED_BY(mu_) = 0;  // Those that the thread has taken.
  uint64_t lost_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t lost_unsaid_ ABSL_GUARDED_BY(mu_) = 0;
  bool failing_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  Anchor head_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace warpline::audit

#endif  // WARPLINE_AUDIT_AUDIT_LOG_H_
