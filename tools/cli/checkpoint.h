// `warpline checkpoint` and `warpline restore`: sessions of a server are saved in a folder, and go
// on from it.
#ifndef WARPLINE_TOOLS_CLI_CHECKPOINT_H_
#define WARPLINE_TOOLS_CLI_CHECKPOINT_H_

#include <string>

#include "proto/admin.pb.h"
#include "tools/cli/command_line.h"
#include "tools/cli/followed_calls.h"

namespace warpline::cli {

using CheckpointCalls =
    FollowedCalls<warpline_internal::CheckpointRequest, warpline_internal::CheckpointReply>;

// Asks for it, and follows it. Returns the exit code: 0 when it is done, 1 when it failed, and 128
// plus the number of a signal that ends waiting, while it goes on at the server.
int FollowCheckpoint(warpline_internal::CheckpointRequest request, const CheckpointCalls& calls);

// Carries either command out, and returns the exit code.
int SaveOrRestore(const CommandLine& line, const std::string& endpoint);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_CHECKPOINT_H_
