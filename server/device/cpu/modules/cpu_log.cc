#include "server/device/cpu/modules/cpu_log.h"

#include "absl/time/time.h"

namespace warpline::cpu {
namespace {

constexpr LogKind kLines[kCpuLineCount] = {
    {"modules_refused", 16, absl::Minutes(5)},
    {"kernels_refused", 32, absl::Minutes(5)},
    {"kernels_failed", 8, absl::Minutes(5)},
};

}  // namespace

LogBudget& CpuLog() {
  static LogBudget* const log = new LogBudget(kLines);
  return *log;
}

}  // namespace warpline::cpu
