// How long a request of the command line waits for its answer.
#ifndef WARPLINE_TOOLS_CLI_CALL_TIMEOUT_H_
#define WARPLINE_TOOLS_CLI_CALL_TIMEOUT_H_

#include "absl/time/time.h"

namespace warpline::cli {

// Returns the seconds in WARPLINE_CONNECT_TIMEOUT, as programs have them for the endpoint, or 5 s
// where the variable has no positive number. Thread-safe while nobody changes the environment.
absl::Duration CallTimeout();

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_CALL_TIMEOUT_H_
