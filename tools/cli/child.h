// Runs the program of `warpline run` as a child: passes signals on to it, and ends as it ends.
#ifndef WARPLINE_TOOLS_CLI_CHILD_H_
#define WARPLINE_TOOLS_CLI_CHILD_H_

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace warpline::cli {

// Blocks SIGPIPE and the signals that WaitForChild() forwards, in this thread and in those that it
// starts from now on. Returns the former mask, which the child gets.
sigset_t BlockForwardedSignals();

// Waits for `pause`, or for one of them that ends programs and that this process did not inherit as
// ignored. Returns its number, or 0.
int WaitForEndSignal(absl::Duration pause);

// Starts the program with this process's environment and `mask`, and with what this process has
// inherited of descriptors and ignored signals. It is in the same process group, so that the
// terminal's signals reach it by themselves. NOT_FOUND or PERMISSION_DENIED.
absl::StatusOr<pid_t> StartChild(const std::string& path, const std::vector<std::string>& arguments,
                                 const sigset_t& mask);

// From now on a process whose parent has ended becomes a child of this one, as long as this one
// runs.
void AdoptOrphans();

// Forwards the signals that other processes send until the child has ended. Returns its exit code,
// or 128 plus its signal, as shells do. Sets `*told_to_end`, which may be null, when one of them
// was SIGTERM, SIGINT or SIGQUIT, whoever sent it.
int WaitForChild(pid_t child, bool* told_to_end = nullptr);

// After WaitForChild() and AdoptOrphans(): returns whether other processes that the child has
// started still run after `patience`, which they get for ending by themselves. Returns false early
// when a signal comes that ends programs.
bool OrphansRemainAfter(absl::Duration patience);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_CHILD_H_
