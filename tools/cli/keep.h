// Keeps the lease of a command that has ended and has left processes running. `warpline run` ends
// with the command; a process behind it keeps the lease until the last of the remaining processes
// has ended.
#ifndef WARPLINE_TOOLS_CLI_KEEP_H_
#define WARPLINE_TOOLS_CLI_KEEP_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "tools/cli/command_line.h"
#include "tools/cli/lease.h"
#include "tools/cli/process_family.h"
#include "tools/cli/token_keeper.h"

namespace warpline::cli {

// Starts `warpline keep-lease`, which takes the lease, the socket and the token's file over, and
// returns its id once it has, before the lease is renewed again. `endpoint` is the one that the
// lease was acquired from, and `token` the lease's latest. When there is an error the caller still
// has everything.
absl::StatusOr<pid_t> StartKeeping(const Lease& lease, const std::string& endpoint,
                                   const std::string& token, const ProcessFamily& family,
                                   TokenKeeper* keeper);

// `warpline keep-lease`: renews the lease until the processes that `line.rest` names, and those
// that they start, have ended, or until a signal that ends programs; then gives the lease back.
// Returns the exit code.
int KeepLease(const CommandLine& line, const std::string& endpoint);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_KEEP_H_
