// The bounds of a server's report to its scheduler, which both of them keep.
#ifndef WARPLINE_PROTO_REPORT_LIMITS_H_
#define WARPLINE_PROTO_REPORT_LIMITS_H_

#include <cstddef>

namespace warpline {

// Sessions of a server at a time, and so leases that have sessions.
inline constexpr int kMostReportedSessions = 8192;
// A report and each message of sessions that follows it (ServerReport.sessions_follow). A session
// has at most some kilobytes.
inline constexpr size_t kMostReportBytes = 1u << 20;

}  // namespace warpline

#endif  // WARPLINE_PROTO_REPORT_LIMITS_H_
