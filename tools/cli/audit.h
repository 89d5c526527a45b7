// `warpline audit`: shows the record that a server or scheduler keeps, and checks it.
#ifndef WARPLINE_TOOLS_CLI_AUDIT_H_
#define WARPLINE_TOOLS_CLI_AUDIT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "audit/chain.h"
#include "audit/record.h"
#include "tools/cli/command_line.h"

namespace warpline::cli {

// The exit codes of `warpline audit`. 2 is for a wrong command line, as everywhere.
inline constexpr int kAuditWhole = 0;
inline constexpr int kAuditBroken = 1;
inline constexpr int kAuditUnreadable = 3;

// Selects the lines to show. A field that is empty or 0 selects all.
struct AuditFilter {
  std::string since;  // In the form of Line::time.
  uint64_t session = 0;
  std::string tenant;
  std::string event;  // "session" stands for "session.opened" and so on.

  bool Lets(const audit::Line& line) const;
};

// Returns the filter of --since, --session, --tenant and --event. --since takes a time
// ("2026-11-22T15:00:00Z"), a day ("2026-11-22"), or a time before `now` ("90m"); INVALID_ARGUMENT
// for other texts.
absl::StatusOr<AuditFilter> FilterOf(const CommandLine& line, absl::Time now);

// Returns a line as text:
// "2026-11-22T15:46:24.123456Z 12 session.opened tenant=a session=7 program=\"my program\""
std::string AuditText(const audit::Line& line);
// Returns the output of --verify: a line for each fault, the notes, and last whether the record is
// whole.
std::string VerdictText(const std::string& dir, const audit::Verdict& verdict);

// Does what the command line says, and returns the exit code.
int Audit(const CommandLine& line);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_AUDIT_H_
