// Parses the command line of `warpline`.
#ifndef WARPLINE_TOOLS_CLI_COMMAND_LINE_H_
#define WARPLINE_TOOLS_CLI_COMMAND_LINE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/serving/tls_files.h"

namespace warpline::cli {

enum class Verb {
  kHelp,
  kVersion,
  kServe,
  kRun,
  kHold,
  kKeepLease,  // Started by kRun, and no command for people.
  kStat,
  kPs,
  kTop,
  kTenant,
  kLease,
  kMigrate,
  kSlice,
  kServers,
  kServer,
  kCheckpoint,
  kRestore,
  kReplace,
  kPageOut,
  kPageIn,
  kSuspend,
  kResume,
  kLimit,
  kRevoke,
  kDevices,
  kExplain,
  kAudit,
  kPolicy,
  kProgram,
  kTrace
};

struct CommandLine {
  Verb verb = Verb::kHelp;
  // The action of kTenant, kLease, kSlice, kServer, kServers, kPolicy and kProgram: "add", "list",
  // ...
  std::string action;
  // The value of --endpoint; empty when it was not given.
  std::string endpoint;
  // The TLS options, which take precedence over the environment's variables.
  TlsFiles tls;
  // The other options by name, without dashes: {"memory", "4GiB"}; switches are "1". Sizes and
  // numbers have been checked.
  std::map<std::string, std::string> options;
  // The words after the options. kHelp: the command that is asked about, or nothing. kReplace,
  // kPageOut, kPageIn, kSuspend, kResume, kLimit and kRevoke: the session's number, or nothing.
  // kCheckpoint: a lease or a session's number, and the folder. kRestore: the folder.
  // kServe: the server's flags. kRun: the program and its arguments, at least one. kExplain:
  // programs. kKeepLease: processes. kMigrate: the lease. kTenant, kLease, kSlice, kServers,
  // kPolicy: the name, or a file. kProgram: the name, and files.
  std::vector<std::string> rest;

  bool Has(const std::string& option) const { return options.count(option) != 0; }
  // These return "" and 0 when the option was not given.
  std::string Text(const std::string& option) const;
  uint64_t Size(const std::string& option) const;
  uint64_t Number(const std::string& option) const;
  absl::Duration Duration(const std::string& option, absl::Duration otherwise) const;
};

// Parses `args`, which leave out the program's name. INVALID_ARGUMENT says what was wrong. The
// options of `warpline run` end at "--" or at the first word that is no option.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_COMMAND_LINE_H_
