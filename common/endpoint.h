// The default endpoints: where a server and a scheduler listen, and where `warpline` looks for
// them.
#ifndef WARPLINE_COMMON_ENDPOINT_H_
#define WARPLINE_COMMON_ENDPOINT_H_

#include <cstdlib>
#include <string>

namespace warpline {

inline constexpr char kDefaultEndpoint[] = "127.0.0.1:14000";
inline constexpr char kDefaultSchedulerEndpoint[] = "127.0.0.1:14100";

// The folder in which the system service warpline-scheduler keeps its state.
inline constexpr char kSchedulerServiceState[] = "/var/lib/warpline-scheduler";

// The folder of a user's scheduler's state; empty when there is no home folder.
inline std::string DefaultSchedulerState() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return std::string(state) + "/warpline-scheduler";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return "";
  return std::string(home) + "/.local/state/warpline-scheduler";
}

}  // namespace warpline

#endif  // WARPLINE_COMMON_ENDPOINT_H_
