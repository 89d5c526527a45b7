// The log lines that calls write beside returning an error. They go through one budget, because a
// program may repeat a failing call for ever and its stderr must not be filled.
#ifndef WARPLINE_CLIENT_STUB_CORE_BASE_CALL_LOG_H_
#define WARPLINE_CLIENT_STUB_CORE_BASE_CALL_LOG_H_

#include <cstddef>

#include "common/log/log_budget.h"

namespace warpline::stub {

enum CallLine : size_t {
  kOptionLine,
  kNoThreadLine,
  kManagedLine,
  kForeignDeviceLine,
  kPinnedLine,
  kPtxLine,
  kNoCodeLine,
  kCallLineCount,
};

// Returns the process's budget. Lines still pending when the process exits are written then.
LogBudget& CallLog();

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BASE_CALL_LOG_H_
