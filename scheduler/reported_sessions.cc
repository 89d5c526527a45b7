#include "scheduler/reported_sessions.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/report_limits.h"

namespace warpline::scheduler {
namespace {

using warpline_internal::ServerReport;
using warpline_internal::SessionsReport;
using warpline_internal::SessionStat;

constexpr size_t kMaxText = 256;
constexpr int kMaxDevices = 64;
constexpr int kMaxUsage = 64;
// A session has a kilobyte or two.
constexpr size_t kMostBytes = size_t{kMostReportedSessions} * 4096;

absl::Status Check(const SessionStat& session) {
  const auto wrong = [&](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("a malformed report: session ", session.id(), " has ", what));
  };
  if (session.program().size() > kMaxText) return wrong("too long a program");
  if (session.peer().size() > 2 * kMaxText) return wrong("too long a peer");
  if (session.reason().size() > 4 * kMaxText) return wrong("too long a reason");
  if (session.memory_refusal().size() > kMaxText) return wrong("too long a refusal");
  if (session.more_gpus_size() > kMaxDevices) return wrong("too many devices");
  if (session.usage_size() > kMaxUsage) return wrong("too many numbers");
  for (const auto& usage : session.usage()) {
    if (usage.name().size() > kMaxText) return wrong("a number with too long a name");
  }
  for (const std::string& text : {session.state(), session.tenant(), session.lease(),
                                  session.server(), session.transport(), session.tier()}) {
    if (text.size() > kMaxText) return wrong("too long a text");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSessions(const ReportedSessions::Sessions& sessions) {
  if (sessions.size() > kMostReportedSessions) {
    return absl::InvalidArgumentError(absl::StrCat("a malformed report: it has ", sessions.size(),
                                                   " sessions, where a server has ",
                                                   kMostReportedSessions, " at most"));
  }
  for (const SessionStat& session : sessions) {
    if (auto status = Check(session); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void ReportedSessions::Begin(const ServerReport& report) {
  instance_ = report.instance();
  number_ = report.number();
  more_follow_ = report.sessions_follow();
  if (!more_follow_) {
    all_ = report.sessions();
    coming_.Clear();
    return;
  }
  coming_ = report.sessions();
  coming_bytes_ = report.ByteSizeLong();
}

absl::Status ReportedSessions::Add(const SessionsReport& more) {
  if (!more_follow_ || more.instance() != instance_ || more.report() != number_) {
    return absl::FailedPreconditionError("these sessions are of no report that waits for them");
  }
  coming_bytes_ += more.ByteSizeLong();
  if (coming_.size() + more.sessions_size() > kMostReportedSessions || coming_bytes_ > kMostBytes) {
    more_follow_ = false;
    coming_.Clear();
    return absl::ResourceExhaustedError(
        absl::StrCat("more sessions than a server may have, which is ", kMostReportedSessions));
  }
  coming_.MergeFrom(more.sessions());
  if (!more.last()) return absl::OkStatus();
  more_follow_ = false;
  all_ = std::move(coming_);
  coming_.Clear();
  return absl::OkStatus();
}

}  // namespace warpline::scheduler
