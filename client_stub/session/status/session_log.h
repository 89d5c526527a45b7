// The lines that a session writes to the application's log, and how often: a program may fail in
// every command, and a server may end connections and report failures as it likes. The end of the
// session is logged once, without a budget.
#ifndef WARPLINE_CLIENT_STUB_SESSION_STATUS_SESSION_LOG_H_
#define WARPLINE_CLIENT_STUB_SESSION_STATUS_SESSION_LOG_H_

#include <cstddef>

#include "absl/time/time.h"
#include "common/log/log_budget.h"

namespace warpline::stub {

enum SessionLine : size_t {
  kFailedLine,
  kNotSplitLine,
  kConnectionLostLine,
  kResumedLine,
  kNoBulkConnectionLine,
  kNoRelayLine,
  kMovedLine,
  kSessionLineCount,
};

inline constexpr LogKind kSessionLines[kSessionLineCount] = {
    {"failed_commands", 20, absl::Minutes(1)},
    {"not_sent", 5, absl::Minutes(1)},
    {"connections_lost", 20, absl::Minutes(1)},
    {"resumed", 20, absl::Minutes(1)},
    {"no_bulk_connection", 2, absl::Minutes(1)},
    {"no_relay", 2, absl::Minutes(1)},
    {"moved", 20, absl::Minutes(1)},
};

}  // namespace warpline::stub

#endif  // WARPLINE_CLIENT_STUB_SESSION_STATUS_SESSION_LOG_H_
