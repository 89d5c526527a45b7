#include "client_stub/core/call_log.h"

#include <cstdlib>

#include "absl/time/time.h"

namespace warpline::stub {
namespace {

constexpr LogKind kLines[kCallLineCount] = {
    {"options", 20, absl::Minutes(1)},
    {"no_thread", 5, absl::Minutes(1)},
    {"managed", 10, absl::Minutes(1)},
    {"foreign_device", 5, absl::Minutes(1)},
};

}  // namespace

LogBudget& CallLog() {
  // Never destroyed: other threads may make calls until the process is gone.
  static LogBudget* const log = [] {
    std::atexit([] { CallLog().Finish(); });
    return new LogBudget(kLines, "calls");
  }();
  return *log;
}

}  // namespace warpline::stub
