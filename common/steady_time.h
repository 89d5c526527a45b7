// Time that nobody can set: what expires, is waited for, or is judged late goes by it.
#ifndef WARPLINE_COMMON_STEADY_TIME_H_
#define WARPLINE_COMMON_STEADY_TIME_H_

#include "absl/time/time.h"

namespace warpline {

// The wall clock's time when it was first asked for in this process, and since then as much later
// as CLOCK_MONOTONIC has gone on. So it can be written down and shown, and a wall clock that is set
// meanwhile changes nothing. Thread-safe.
absl::Time SteadyNow();

}  // namespace warpline

#endif  // WARPLINE_COMMON_STEADY_TIME_H_
