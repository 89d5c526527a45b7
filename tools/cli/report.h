// The output of `warpline stat` and `warpline ps`, for a server or for a scheduler's servers.
#ifndef WARPLINE_TOOLS_CLI_REPORT_H_
#define WARPLINE_TOOLS_CLI_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/admin.pb.h"

namespace warpline::cli {

// Asks the server or scheduler at `endpoint`. UNAVAILABLE when there is no answer within 5 s; other
// errors as AskForStat() of administration.h.
absl::StatusOr<warpline_internal::StatReply> AskServer(const std::string& endpoint);

// Has a server do what `request` says with its sessions, and returns when that is done. The server
// waits up to 10 s for what is in flight in each. Errors as AdminOf().
absl::StatusOr<warpline_internal::ReplaceReply> AskToReplace(
    const std::string& endpoint, warpline_internal::ReplaceRequest request);

// Prints everything, as groups of "name value".
std::string StatReport(warpline_internal::StatReply reply);
// Prints a table with a line for each session.
std::string PsReport(warpline_internal::StatReply reply);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_REPORT_H_
