// The sessions of a server as it reported them last: the report, and messages that follow it where
// it had no room for all.
#ifndef WARPLINE_SCHEDULER_REPORTED_SESSIONS_H_
#define WARPLINE_SCHEDULER_REPORTED_SESSIONS_H_

#include <google/protobuf/repeated_field.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "proto/scheduler.pb.h"

namespace warpline::scheduler {

// INVALID_ARGUMENT for sessions that are no server's.
absl::Status CheckSessions(
    const google::protobuf::RepeatedPtrField<warpline_internal::SessionStat>& sessions);

// Thread-compatible. It takes sessions that CheckSessions() has passed.
class ReportedSessions {
 public:
  using Sessions = google::protobuf::RepeatedPtrField<warpline_internal::SessionStat>;

  // Takes the sessions of a report. Those of the report before stay until the last ones of this one
  // have come.
  void Begin(const warpline_internal::ServerReport& report);
  // FAILED_PRECONDITION for sessions of another report than the latest, RESOURCE_EXHAUSTED for more
  // than a server may have.
  absl::Status Add(const warpline_internal::SessionsReport& more);

  // The sessions of the latest report that is complete.
  const Sessions& all() const { return all_; }

 private:
  Sessions all_;
  Sessions coming_;
  size_t coming_bytes_ = 0;
  bool more_follow_ = false;
  uint64_t instance_ = 0;  // These are the latest report's.
  uint64_t number_ = 0;
};

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_REPORTED_SESSIONS_H_
