// Runs the program of `warpline run` as a child: passes signals on to it, and ends as it ends.
#ifndef WARPLINE_TOOLS_CLI_CHILD_H_
#define WARPLINE_TOOLS_CLI_CHILD_H_

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/cli/process_family.h"

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

// How a child has ended.
// How a child has ended.
struct ChildEnd {
  int code = 1;  // Its exit code, or 128 plus the number of the signal that ended it, as in shells.
  // True when this process has forwarded SIGTERM to it, or when SIGTERM, SIGINT or SIGQUIT has
  // ended it, as its exit code may say, too. An interrupt that the child outlives does not count,
  // since it may have ended only a step of the child's work.
  bool told_to_end = false;
};

// Forwards the signals that other processes send until the child has ended. A signal that this
// process inherited as ignored tells nobody to end.
ChildEnd WaitForChild(pid_t child);

// The processes that a child has left.
struct Orphans {
  ProcessFamily running;
  bool told_to_end = false;  // SIGTERM, SIGINT or SIGQUIT came while they were waited for.
};

// After WaitForChild() and AdoptOrphans(): gives the processes that the child has left the time
// `patience` to end by themselves, and returns those that still run. Ends early when none does, and
// when SIGTERM, SIGINT or SIGQUIT comes that was not inherited as ignored; other signals change
// nothing. `others` are descendants of this process that are not the child's.
Orphans WaitForOrphans(absl::Duration patience, const ProcessFamily& others);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_CHILD_H_
