// `warpline run`: runs a program, and all that it starts, under one lease.
#ifndef WARPLINE_TOOLS_CLI_RUN_H_
#define WARPLINE_TOOLS_CLI_RUN_H_

#include <string>

#include "tools/cli/command_line.h"

namespace warpline::cli {

// Returns the exit code: that of the program, 127 and 126 as shells do, or 1 when there is no lease
// or no libcuda.so.1. Prints on stderr what failed.
int Run(const CommandLine& line, const std::string& endpoint);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_RUN_H_
