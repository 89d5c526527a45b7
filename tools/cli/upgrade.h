// `warpline server upgrade`: another version of a server's program goes on with its sessions.
#ifndef WARPLINE_TOOLS_CLI_UPGRADE_H_
#define WARPLINE_TOOLS_CLI_UPGRADE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/admin.pb.h"
#include "tools/cli/command_line.h"

namespace warpline::cli {

// An upgrade asks and says everything through these functions, which it calls in one thread.
struct UpgradeCalls {
  // Asks the server.
  std::function<absl::StatusOr<warpline_internal::UpgradeReply>(
      const warpline_internal::UpgradeRequest& request)>
      ask;
  // Takes the time `pause`, or less when a signal comes: returns its number, or 0.
  std::function<int(absl::Duration pause)> pause;
  std::function<absl::Time()> clock;
  // Prints a line of the result, and one of what went wrong.
  std::function<void(const std::string& line)> say;
  std::function<void(const std::string& line)> complain;
};

// Asks for the upgrade, and follows it. Returns the exit code: 0 when another version serves, 1
// when the former one does or none, and 128 plus the number of a signal that ends waiting, while
// the upgrade goes on.
int FollowUpgrade(warpline_internal::UpgradeRequest request, const UpgradeCalls& calls);

// Carries the command out, and returns the exit code.
int UpgradeServer(const CommandLine& line, const std::string& endpoint);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_UPGRADE_H_
