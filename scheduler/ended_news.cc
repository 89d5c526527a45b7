#include "scheduler/ended_news.h"

#include <algorithm>

#include "proto/report_limits.h"

namespace warpline::scheduler {

ReportAnswer::ReportAnswer(warpline_internal::ReportReply* reply)
    : reply_(reply), bytes_(reply->ByteSizeLong()) {}

bool ReportAnswer::HasRoom(size_t bytes) {
  constexpr size_t kOverhead = 24;  // Tags, lengths and numbers.
  const size_t more = bytes + kOverhead;
  if (bytes_ + more > kMostReportBytes) return false;
  bytes_ += more;
  return true;
}

bool ReportAnswer::AddMove(const warpline_internal::MoveOrder& order) {
  if (!HasRoom(order.ByteSizeLong())) return false;
  *reply_->add_moves() = order;
  return true;
}

bool ReportAnswer::AddEnded(const std::string& lease, const EndReason& reason) {
  if (!HasRoom(lease.size() + reason.text.size())) return false;
  auto* const ended = reply_->add_ended();
  ended->set_lease(lease);
  ended->set_reason(reason.text);
  ended->set_cause(static_cast<uint32_t>(reason.cause));
  ended_.insert(lease);
  return true;
}

bool ReportAnswer::AddEnding(const std::string& lease, const EndReason& reason,
                             uint32_t ends_in_ms) {
  if (!HasRoom(lease.size() + reason.text.size())) return false;
  auto* const ending = reply_->add_ending();
  ending->set_lease(lease);
  ending->set_reason(reason.text);
  ending->set_cause(static_cast<uint32_t>(reason.cause));
  ending->set_ends_in_ms(ends_in_ms);
  return true;
}

void EndedNews::NextAnswer(bool heard) {
  const bool begins = !heard || (again_ && !telling());
  if (!begins) return;
  again_ = false;
  after_ = "";
  told_.clear();
}

void EndedNews::Tell(std::vector<LeaseRecord> ended, ReportAnswer* answer) {
  std::sort(ended.begin(), ended.end(),
            [](const LeaseRecord& a, const LeaseRecord& b) { return a.id < b.id; });
  for (const LeaseRecord& lease : ended) {
    if (lease.id <= *after_) continue;
    if (!answer->AddEnded(lease.id, lease.reason)) return;
    after_ = lease.id;
    told_.insert(lease.id);
  }
  after_.reset();
}

}  // namespace warpline::scheduler
