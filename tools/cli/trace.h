// `warpline trace`: writes the spans of a server's flight recorders to a file for trace viewers.
#ifndef WARPLINE_TOOLS_CLI_TRACE_H_
#define WARPLINE_TOOLS_CLI_TRACE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/admin.pb.h"
#include "tools/cli/command_line.h"

namespace warpline::cli {

// Waits for as long as the command says, writes the file, and returns what to print. Errors are for
// people.
absl::StatusOr<std::string> Trace(const CommandLine& line, const std::string& endpoint);

// Returns the replies, in their order, in the Trace Event Format of chrome://tracing. Each device
// is a process. Each of its engines has a row of turns, and two rows for each slice: work and
// waits. Times are microseconds since the earliest span.
std::string TraceJson(const std::vector<warpline_internal::TraceReply>& replies);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_TRACE_H_
