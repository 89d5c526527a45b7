// What the device logs about programs that it refuses or that fail, and how often. The programs
// belong to a tenant, who may try again as often as it likes.
#ifndef WARPLINE_SERVER_DEVICE_CPU_MODULES_CPU_LOG_H_
#define WARPLINE_SERVER_DEVICE_CPU_MODULES_CPU_LOG_H_

#include <cstddef>

#include "common/log/log_budget.h"

namespace warpline::cpu {

enum CpuLine : size_t { kModuleLine, kKernelLine, kFaultLine, kCpuLineCount };

// The budget of the process, which has one session.
LogBudget& CpuLog();

}  // namespace warpline::cpu

#endif  // WARPLINE_SERVER_DEVICE_CPU_MODULES_CPU_LOG_H_
