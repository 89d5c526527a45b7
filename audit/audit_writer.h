// Writes the lines of a record into its files, each chained to the one before.
//
// Files are only ever appended to. One that has reached its size is followed by the next, whose
// first line names the last one's hash; the oldest are removed when there are too many, after a
// record has said so. A line that the disk takes only in part is kept and completed later.
#ifndef WARPLINE_AUDIT_AUDIT_WRITER_H_
#define WARPLINE_AUDIT_AUDIT_WRITER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "audit/chain.h"
#include "audit/record.h"
#include "common/unique_fd.h"

namespace warpline::audit {

struct AuditWriterOptions {
  // Made if it is not there. Nobody but this user may write to it.
  std::string dir;
  uint64_t file_bytes = 16u << 20;
  // Files that are kept, the one that is written to among them. At least 2.
  uint64_t files = 64;
  std::function<absl::Time()> clock = [] { return absl::Now(); };
};

// Thread-compatible.
class AuditWriter {
 public:
  // Checks the last file, and goes on where it ends. Where that was changed, begins a new chain
  // that names the break, and says so in the log. FAILED_PRECONDITION when another process has the
  // folder or other users may write to it; otherwise the error of the file system.
  static absl::StatusOr<std::unique_ptr<AuditWriter>> Open(AuditWriterOptions options);
  AuditWriter(const AuditWriter&) = delete;
  AuditWriter& operator=(const AuditWriter&) = delete;

  // Appends a record. UNAVAILABLE when the disk does not take it: nothing has happened then, and it
  // may be tried again. OK may also mean that the file has only a part of its line as yet: Flush()
  // tells.
  absl::Status Append(const Record& record);
  // Writes what the file does not have yet of the lines that were appended. UNAVAILABLE when the
  // disk does not take it; the next call completes it.
  absl::Status Flush();
  // Makes the disk have what was appended.
  absl::Status Sync();
  // The last line that is in its file as a whole.
  const Anchor& head() const { return written_; }
  const std::string& dir() const { return options_.dir; }

 private:
  AuditWriter(AuditWriterOptions options, UniqueFd lock)
      : options_(std::move(options)), lock_(std::move(lock)) {}

  absl::Status Begin();
  absl::Status GoOnAfter(uint64_t number, const Tail& tail);
  absl::Status OpenFile(uint64_t number, bool there);
  absl::Status NextFile(Record first);
  void AddLine(Record record);
  void Prune();

  const AuditWriterOptions options_;
  const UniqueFd lock_;
  UniqueFd file_;
  uint64_t number_ = 0;
  uint64_t bytes_ = 0;   // Of the file, with what is pending.
  std::string pending_;  // What the file does not have yet.
  Anchor head_;          // With the lines that are pending.
  Anchor written_;
};

}  // namespace warpline::audit

#endif  // WARPLINE_AUDIT_AUDIT_WRITER_H_
