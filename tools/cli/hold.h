// `warpline hold`: holds a lease for programs that are started elsewhere, as the containers of a
// pod are.
#ifndef WARPLINE_TOOLS_CLI_HOLD_H_
#define WARPLINE_TOOLS_CLI_HOLD_H_

#include <string>

#include "tools/cli/command_line.h"

namespace warpline::cli {

// Waits until there is a lease, keeps what programs need of it in --folder (common/lease_folder.h),
// and renews it until SIGTERM or SIGINT, when it gives the lease back. Returns the exit code.
//
//   0  it was told to end
//   1  the lease was refused or lost
//   2  the folder cannot be used
//   3  there was no room within --wait
//   4  no server answered at the end of --wait
//
// Prints on stderr what happened.
int Hold(const CommandLine& line, const std::string& endpoint);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_HOLD_H_
