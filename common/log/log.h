// One log format for every Warpline process: a line on stderr per state change.
//
//   2026-11-21T02:30:00.123Z I server session=7 opened tenant=local gpu=0
//
// Thread-safe: a line is written with one write(2). Never log per forwarded call; say what a peer
// can cause again and again within a LogBudget (log_budget.h).
#ifndef WARPLINE_COMMON_LOG_LOG_H_
#define WARPLINE_COMMON_LOG_LOG_H_

#include <string_view>

#include "absl/strings/str_cat.h"

namespace warpline {

//   SetLogName("server");  // Once, at the start of main().
//   LogInfo("session=", id, " opened tenant=", tenant, " gpu=", gpu);
// The severity of a line. kNone is for SetLogLevel() alone: nothing is said at it.
enum class LogLevel { kInfo, kWarning, kError, kNone };

// Names this process in its log lines ("server", "worker", "stub"). Call before the first line;
// `name` must outlive the process's last line.
void SetLogName(const char* name);

// Makes lines go to `descriptor` instead of stderr from now on. It must stay open as long as the
// process lives.
void SetLogDescriptor(int descriptor);

// Drops lines below `level` from now on. The default is kInfo.
void SetLogLevel(LogLevel level);

// Writes one line. Newlines and control characters in `text` are escaped, since parts of it may
// come from a tenant. When the text is too long its end is left out, but never `tail`, which is
// short and never comes from a tenant.
void LogLine(LogLevel level, std::string_view text, std::string_view tail = {});

template <typename... Args>
void LogInfo(const Args&... args) {
  LogLine(LogLevel::kInfo, absl::StrCat(args...));
}
template <typename... Args>
void LogWarning(const Args&... args) {
  LogLine(LogLevel::kWarning, absl::StrCat(args...));
}
template <typename... Args>
void LogError(const Args&... args) {
  LogLine(LogLevel::kError, absl::StrCat(args...));
}

}  // namespace warpline

#endif  // WARPLINE_COMMON_LOG_LOG_H_
