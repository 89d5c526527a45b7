// What calls say in the log, beside their result: a program may make the same call that fails for
// ever, and its stderr is not ours to fill.
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
  kCallLineCount,
};

// Of the process. What is pending when it exits is said then.
LogBudget& CallLog();

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_CORE_BASE_CALL_LOG_H_
