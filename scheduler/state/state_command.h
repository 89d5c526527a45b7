// `warpline-scheduler state VERB`: what operators do with a state while no scheduler has it.
#ifndef WARPLINE_SCHEDULER_STATE_STATE_COMMAND_H_
#define WARPLINE_SCHEDULER_STATE_STATE_COMMAND_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace warpline::scheduler {

// For --help.
extern const char kStateUsage[];

// Where the state is: --state as it was given, and the scheduler's own folder, which is where the
// state is unless that is in etcd.
struct StatePlace {
  std::string state;
  std::string folder;
};

// Returns whether there is such a verb: "show" or "copy".
bool IsStateVerb(absl::string_view verb);

// Carries the verb out, with the flags that were given, and returns what is to be printed.
// INVALID_ARGUMENT for flags that do not fit; otherwise the errors of the stores and of
// state_copy.h. Nothing has changed after an error, unless the error says so.
absl::StatusOr<std::string> RunStateVerb(absl::string_view verb, const StatePlace& place);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_STATE_STATE_COMMAND_H_
