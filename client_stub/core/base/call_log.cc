#include "client_stub/core/base/call_log.h"

#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/time/time.h"

namespace warpline::stub {
namespace {

constexpr LogKind kLines[kCallLineCount] = {
    {"options", 20, absl::Minutes(1)}, {"no_thread", 5, absl::Minutes(1)},
    {"managed", 10, absl::Minutes(1)}, {"foreign_device", 5, absl::Minutes(1)},
    {"pinned", 5, absl::Minutes(1)},
};

}  // namespace

LogBudget& CallLog() {
  // Never destroyed: other threads may make calls until the process is gone.
  static LogBudget* const log = [] {
    // The process that a pending line belongs to writes it; children of a fork do not write it
    // again.
    static const pid_t process = getpid();
    std::atexit([] {
      if (getpid() == process) CallLog().Finish();
    });
    return new LogBudget(kLines, "calls");
  }();
  return *log;
}

}  // namespace warpline::stub
