// `warpline program`: the folder of vetted programs, which sessions may run that may bring no code
// (common/vetted/program_folder.h). It needs no server.
#ifndef WARPLINE_TOOLS_CLI_PROGRAM_H_
#define WARPLINE_TOOLS_CLI_PROGRAM_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/cli/command_line.h"

namespace warpline::cli {

// Carries out the action of a `warpline program` command line, and returns what it prints.
absl::StatusOr<std::string> Program(const CommandLine& line);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_PROGRAM_H_
