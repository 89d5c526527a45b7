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

// Which lines are shown; what is empty or 0 lets all through.
struct AuditFilter {
  std::string since;  // In the form of Line::time.
  uint64_t session = 0;
  std::string tenant;
  std::string event;  // "session" stands for "session.opened" and so on.

  bool Lets(const audit::Line& line) const;
};

// Of --since, --session, --tenant and --event. INVALID_ARGUMENT for a time that is none: --since
// takes a time ("2026-11-22T15:00:00Z"), a day ("2026-11-22"), or how long before `now` ("90m").
absl::StatusOr<AuditFilter> FilterOf(const CommandLine& line, absl::Time now);

// "2026-11-22T15:46:24.123456Z 12 session.opened tenant=a session=7 program=\"my program\""
std::string AuditText(const audit::Line& line);
// What --verify prints: a line for each fault, the notes, and last whether the record is whole.
std::string VerdictText(const std::string& dir, const audit::Verdict& verdict);

// Does what the command line says, and returns the exit code.
int Audit(const CommandLine& line);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_AUDIT_H_
