// The command line of `warpline`, taken apart.
#ifndef WARPLINE_TOOLS_CLI_COMMAND_LINE_H_
#define WARPLINE_TOOLS_CLI_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tls_files.h"

namespace warpline::cli {

enum class Verb { kHelp, kVersion, kServe, kRun, kStat, kPs, kReplace };

struct CommandLine {
  Verb verb = Verb::kHelp;
  // From --endpoint; empty when it was not given.
  std::string endpoint;
  // From --tls_ca, --tls_cert, --tls_key and --tls_server_name; what is empty was not given.
  TlsFiles tls;
  // kReplace: the session's number, or nothing. kServe: the server's flags. kRun: the program and
  // its arguments, at least one.
  std::vector<std::string> rest;
};

// `args` without the program's name. INVALID_ARGUMENT says what was wrong. Options of `warpline
// run` end at "--" or at the first word that is none.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args);

// What `warpline --help` prints.
extern const char kHelp[];

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_COMMAND_LINE_H_
