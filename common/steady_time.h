// A clock that cannot be set. Deadlines, waits and lateness are measured with it.
#ifndef WARPLINE_COMMON_STEADY_TIME_H_
#define WARPLINE_COMMON_STEADY_TIME_H_

#include "absl/time/time.h"

namespace warpline {

// The wall clock's time when it was first asked for in this process, plus what CLOCK_MONOTONIC has
// advanced since. So the time can be written down and shown, and setting the wall clock meanwhile
// changes nothing. Thread-safe.
absl::Time SteadyNow();

}  // namespace warpline

#endif  // WARPLINE_COMMON_STEADY_TIME_H_
