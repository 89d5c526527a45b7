// `warpline run`: runs a program, and all that it starts, under one lease.
#ifndef WARPLINE_TOOLS_CLI_RUN_H_
#define WARPLINE_TOOLS_CLI_RUN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/cli/command_line.h"
#include "tools/cli/lease.h"

namespace warpline::cli {

// Returns the exit code: that of the program, 127 and 126 as shells do, or 1 when there is no lease
// or no libcuda.so.1. Prints on stderr what failed.
int Run(const CommandLine& line, const std::string& endpoint);

// Asks for the lease that the options of `line` describe; `program` is what lists of leases show.
absl::StatusOr<std::unique_ptr<Lease>> AcquireFor(const CommandLine& line,
                                                  const std::string& endpoint,
                                                  const std::string& program);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_RUN_H_
