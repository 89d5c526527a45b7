// Puts the sessions of a server into its report and, where that has no room, into messages that
// follow it.
#ifndef WARPLINE_SERVER_GPU_SERVER_ADMIN_REPORT_PARTS_H_
#define WARPLINE_SERVER_GPU_SERVER_ADMIN_REPORT_PARTS_H_

#include <cstddef>
#include <vector>

#include "proto/scheduler.pb.h"

namespace warpline::server {

// Thread-compatible. At most kMostReportedSessions sessions are reported.
class ReportParts {
 public:
  // `report` has everything but its sessions already. It is borrowed.
  explicit ReportParts(warpline_internal::ServerReport* report);

  void Add(warpline_internal::SessionStat session);
  // Returns the messages that follow, in their order. Call it once.
  std::vector<warpline_internal::SessionsReport> Finish();

 private:
  warpline_internal::ServerReport* const report_;
  size_t bytes_;  // The size of the report, or of the last message that follows it.
  int sessions_ = 0;
  std::vector<warpline_internal::SessionsReport> more_;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_ADMIN_REPORT_PARTS_H_
