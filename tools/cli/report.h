// What `warpline stat` and `warpline ps` print, of a server or of a scheduler's servers.
#ifndef WARPLINE_TOOLS_CLI_REPORT_H_
#define WARPLINE_TOOLS_CLI_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/admin.pb.h"

namespace warpline::cli {

// Asks the server or scheduler at `endpoint`. UNAVAILABLE when none answers within 5 s.
absl::StatusOr<warpline_internal::StatReply> AskServer(const std::string& endpoint);

// Has other workers take over from those of `session`, or of all for 0, and returns when that is
// done; the server waits up to 10 s for what is in flight in each.
absl::StatusOr<warpline_internal::ReplaceReply> AskToReplace(const std::string& endpoint,
                                                             uint64_t session);

// Everything, as "name value" groups.
std::string StatReport(const warpline_internal::StatReply& reply);
// A table with a line for each session.
std::string PsReport(const warpline_internal::StatReply& reply);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_REPORT_H_
