#include "audit/audit_flags.h"

#include <cstdlib>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/serving/duration_flag.h"

ABSL_FLAG(std::string, audit_dir, "",
          "The folder of the audit's record, which says who opened, loaded, shared, "
          "ended and administered what (`warpline audit` reads it). Empty for audit "
          "in $STATE_DIRECTORY, which systemd sets, and for no record without it; "
          "\"none\" for none.");
ABSL_FLAG(std::string, audit, "best_effort",
          "What happens when the record cannot be written. best_effort says so in the "
          "log, and goes on. required refuses new sessions and operators' actions "
          "meanwhile, and does not start without a record.");
ABSL_FLAG(warpline::ByteSize, audit_file_bytes, {16ull << 20},
          "The size at which the record goes on in a new file, such as 16MiB.");
ABSL_FLAG(int, audit_files, 64,
          "The most files of the record that are kept; beyond them the oldest is "
          "removed.");
ABSL_FLAG(warpline::DurationFlag, audit_anchor_interval, absl::Minutes(5),
          "How often the record's latest hash is written to the system's log. It "
          "shows later that nothing before it was cut off or changed.");

namespace warpline::audit {
namespace {

// Empty for none.
std::string AuditDir() {
  std::string dir = absl::GetFlag(FLAGS_audit_dir);
  if (dir == "none") return "";
  if (!dir.empty()) return dir;
  const char* const state = getenv("STATE_DIRECTORY");
  if (state == nullptr || *state != '/') return "";
  // Several are separated by colons.
  const std::string first(state);
  return absl::StrCat(first.substr(0, first.find(':')), "/audit");
}

}  // namespace

absl::StatusOr<AuditLogOptions> AuditLogOptionsFromFlags() {
  AuditLogOptions options;
  options.writer.dir = AuditDir();
  const std::string how = absl::GetFlag(FLAGS_audit);
  if (how != "best_effort" && how != "required") {
    return absl::InvalidArgumentError(
        absl::StrCat("--audit=", how, ": it is best_effort or required"));
  }
  options.required = how == "required";
  if (options.required && options.writer.dir.empty()) {
    return absl::InvalidArgumentError("--audit=required needs --audit_dir");
  }
  options.writer.file_bytes = absl::GetFlag(FLAGS_audit_file_bytes).bytes;
  if (options.writer.file_bytes < (64u << 10) || options.writer.file_bytes > (1u << 30)) {
    return absl::InvalidArgumentError("--audit_file_bytes must be from 64KiB to 1GiB");
  }
  const int files = absl::GetFlag(FLAGS_audit_files);
  if (files < 2 || files > 1'000'000) {
    return absl::InvalidArgumentError("--audit_files must be from 2 to 1000000");
  }
  options.writer.files = static_cast<uint64_t>(files);
  options.anchor_interval = absl::GetFlag(FLAGS_audit_anchor_interval).get();
  if (options.anchor_interval < absl::Seconds(1) || options.anchor_interval > absl::Hours(24)) {
    return absl::InvalidArgumentError("--audit_anchor_interval must be from 1s to 24h");
  }
  return options;
}

}  // namespace warpline::audit
