// `warpline migrate` and `warpline servers drain --migrate`: leases go on at other servers.
#ifndef WARPLINE_TOOLS_CLI_MIGRATE_H_
#define WARPLINE_TOOLS_CLI_MIGRATE_H_

#include <string>
#include <vector>

#include "proto/scheduler.pb.h"
#include "tools/cli/command_line.h"
#include "tools/cli/followed_calls.h"

namespace warpline::cli {

using MigrationCalls = FollowedCalls<warpline_internal::MoveRequest, warpline_internal::MoveReply>;

// Moves one lease as `request` says, and unless `wait`, only begins that. Returns the exit code: 0
// for a lease that has moved, 1 for one that has not, and 128 plus the number of a signal that ends
// waiting, while the move goes on.
int MoveLease(const warpline_internal::MoveRequest& request, bool wait,
              const MigrationCalls& calls);

// Moves the leases to wherever there is room, a few at a time, and says for each how that went.
// Returns the number of a signal that ends it, or 0.
int MoveLeases(const std::string& credential, const std::vector<std::string>& leases,
               const MigrationCalls& calls);

// Carry the commands out, and return the exit code. Draining returns 0 if no lease is left.
int Migrate(const CommandLine& line, const std::string& endpoint);
int DrainByMoving(const CommandLine& line, const std::string& endpoint);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_MIGRATE_H_
