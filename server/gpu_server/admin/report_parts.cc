#include "server/gpu_server/admin/report_parts.h"

#include <utility>

#include "proto/report_limits.h"

namespace warpline::server {

using warpline_internal::SessionsReport;

ReportParts::ReportParts(warpline_internal::ServerReport* report)
    : report_(report), bytes_(report->ByteSizeLong()) {}

void ReportParts::Add(warpline_internal::SessionStat session) {
  if (sessions_ == kMostReportedSessions) return;
  ++sessions_;
  constexpr size_t kOverhead = 8;  // Tag and length.
  const size_t bytes = session.ByteSizeLong() + kOverhead;
  if (bytes_ + bytes > kMostReportBytes) {
    report_->set_sessions_follow(true);
    SessionsReport& next = more_.emplace_back();
    next.set_credential(report_->credential());
    next.set_name(report_->name());
    next.set_instance(report_->instance());
    next.set_report(report_->number());
    bytes_ = next.ByteSizeLong();
  }
  bytes_ += bytes;
  *(more_.empty() ? report_->add_sessions() : more_.back().add_sessions()) = std::move(session);
}

std::vector<SessionsReport> ReportParts::Finish() {
  if (!more_.empty()) more_.back().set_last(true);
  return std::move(more_);
}

}  // namespace warpline::server
