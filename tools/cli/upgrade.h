// `warpline server upgrade`: another version of a server's program goes on with its sessions.
#ifndef WARPLINE_TOOLS_CLI_UPGRADE_H_
#define WARPLINE_TOOLS_CLI_UPGRADE_H_

#include <string>

#include "proto/admin.pb.h"
#include "tools/cli/command_line.h"
#include "tools/cli/followed_calls.h"

namespace warpline::cli {

using UpgradeCalls =
    FollowedCalls<warpline_internal::UpgradeRequest, warpline_internal::UpgradeReply>;

// Asks for the upgrade, and follows it. Returns the exit code: 0 when another version serves, 1
// when the former one does or none, and 128 plus the number of a signal that ends waiting, while
// the upgrade goes on.
int FollowUpgrade(warpline_internal::UpgradeRequest request, const UpgradeCalls& calls);

// Carries the command out, and returns the exit code.
int UpgradeServer(const CommandLine& line, const std::string& endpoint);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_UPGRADE_H_
