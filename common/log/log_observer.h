// A second reader of this process's log lines, beside the descriptor that they are written to.
#ifndef WARPLINE_COMMON_LOG_LOG_OBSERVER_H_
#define WARPLINE_COMMON_LOG_LOG_OBSERVER_H_

#include <string_view>

#include "common/log/log.h"

namespace warpline {

// Called with each line that is written, without its time and its final newline. It runs on the
// thread that says the line, which may hold any lock: it must not log, and must not wait.
using LogObserver = void (*)(LogLevel level, std::string_view line);

// Has `observer` called from now on; null ends it. Thread-safe.
void SetLogObserver(LogObserver observer);

}  // namespace warpline

#endif  // WARPLINE_COMMON_LOG_LOG_OBSERVER_H_
