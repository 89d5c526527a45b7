// Tells signals that a process ignores.
#ifndef WARPLINE_COMMON_IGNORED_SIGNAL_H_
#define WARPLINE_COMMON_IGNORED_SIGNAL_H_

#include <signal.h>

namespace warpline {

// Returns true for a signal that this process ignores. A process inherits that: a shell has its
// background jobs ignore the terminal's interrupt, and nohup the terminal's end. Thread-safe.
inline bool IsIgnoredSignal(int number) {
  struct sigaction action;
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace warpline

#endif  // WARPLINE_COMMON_IGNORED_SIGNAL_H_
