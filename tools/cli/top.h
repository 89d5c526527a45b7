// `warpline top`: shows sessions with their rates.
#ifndef WARPLINE_TOOLS_CLI_TOP_H_
#define WARPLINE_TOOLS_CLI_TOP_H_

#include <cstddef>
#include <string>

#include "proto/admin.pb.h"
#include "tools/cli/command_line.h"

namespace warpline::cli {

// The size of the terminal; 0 and 0 when the output is no terminal.
struct TerminalSize {
  size_t rows = 0;
  size_t columns = 0;
};

// Shows devices, then sessions, the busiest first, with what changed from `before` to `now` in
// `seconds`; as much as fits.
std::string TopReport(warpline_internal::StatReply before, warpline_internal::StatReply now,
                      double seconds, const TerminalSize& size = {});

// Runs until it is interrupted, or once. Returns the exit code.
int Top(const CommandLine& line, const std::string& endpoint);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_TOP_H_
