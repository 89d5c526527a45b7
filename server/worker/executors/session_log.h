// What a worker logs about its session, and how often: a tenant can cause any of it as often as it
// likes.
#ifndef WARPLINE_SERVER_WORKER_EXECUTORS_SESSION_LOG_H_
#define WARPLINE_SERVER_WORKER_EXECUTORS_SESSION_LOG_H_

#include <cstddef>

#include "absl/time/time.h"
#include "common/log/log_budget.h"

namespace warpline::worker {

enum SessionLine : size_t {
  kRefusedLine,
  kAuditedLine,  // A refusal of a command whose row says `audit` (proto/calls.toml).
  kJournalFullLine,
  kNotVettedLine,
  kNoThreadLine,
  kNotUnmappedLine,
  kVariablesLine,
  kSessionLineCount,
};

// The lines are few and the intervals long, because a server may have many sessions, and each has
// this budget.
inline constexpr LogKind kSessionLines[kSessionLineCount] = {
    {"refused_commands", 8, absl::Minutes(5)}, {"audited_commands", 8, absl::Minutes(5)},
    {"journal_full", 4, absl::Minutes(5)},     {"not_vetted", 4, absl::Minutes(5)},
    {"no_thread", 4, absl::Minutes(5)},        {"not_unmapped", 4, absl::Minutes(5)},
    {"variables", 4, absl::Minutes(5)},
};

}  // namespace warpline::worker

#endif  // WARPLINE_SERVER_WORKER_EXECUTORS_SESSION_LOG_H_
