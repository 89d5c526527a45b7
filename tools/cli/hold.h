// `warpline hold`: holds a lease for programs that are started elsewhere, as the containers of a
// pod are.
#ifndef WARPLINE_TOOLS_CLI_HOLD_H_
#define WARPLINE_TOOLS_CLI_HOLD_H_

#include <string>

#include "tools/cli/command_line.h"

namespace warpline::cli {

// Waits until there is a lease, keeps what programs need of it in --folder (common/lease_folder.h),
// and renews it until SIGTERM or SIGINT, when it gives the lease back. Returns the exit code: 0
// when it was told to end, 1 when the lease was refused or lost, 2 when the folder cannot be used.
// Prints on stderr what happened.
int Hold(const CommandLine& line, const std::string& endpoint);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_HOLD_H_
