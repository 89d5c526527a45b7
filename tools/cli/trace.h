// `warpline trace`: what a server's flight recorders have, as a file that trace viewers open.
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

// The replies, in their order, in the Trace Event Format of chrome://tracing: a process for each
// device, and for each of its engines a row of turns, and one of work and one of waits for each
// slice. Microseconds since the earliest span.
std::string TraceJson(const std::vector<warpline_internal::TraceReply>& replies);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_TRACE_H_
