#include "server/gpu_server/admin/replacements.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace warpline::server {
namespace {

SessionAction ActionOf(warpline_internal::ReplaceRequest::Action action) {
  switch (action) {
    case warpline_internal::ReplaceRequest::PAGE_OUT:
      return SessionAction::kPageOut;
    case warpline_internal::ReplaceRequest::PAGE_IN:
      return SessionAction::kPageIn;
    case warpline_internal::ReplaceRequest::SUSPEND:
      return SessionAction::kSuspend;
    case warpline_internal::ReplaceRequest::RESUME:
      return SessionAction::kResume;
    default:
      return SessionAction::kReplace;
  }
}

}  // namespace

absl::StatusOr<uint64_t> Replacements::Start(Action action, std::vector<uint64_t> sessions,
                                             absl::Duration deadline, uint64_t resident_bytes,
                                             std::string reason) {
  auto job = std::make_shared<Job>();
  job->action = action;
  job->sessions = std::move(sessions);
  job->deadline = deadline;
  job->resident_bytes = resident_bytes;
  job->reason = std::move(reason);
  uint64_t ticket;
  {
    MutexLock lock(&mu_);
    if (jobs_.size() >= kMostKept) {
      const auto finished = std::find_if(jobs_.begin(), jobs_.end(),
                                         [](const auto& kept) { return Done(kept.second.get()); });
      if (finished == jobs_.end()) {
        return absl::ResourceExhaustedError(
            absl::StrCat(kMostKept, " replacements are under way already"));
      }
      jobs_.erase(finished);
    }
    ticket = ++last_ticket_;
    jobs_.emplace(ticket, job);
  }
  Next(host_, job, 0);
  return ticket;
}

bool Replacements::Done(Job* job) {
  MutexLock lock(&job->mu);
  return job->reply.done();
}

void Replacements::Next(SessionHost* host, const std::shared_ptr<Job>& job, size_t index) {
  if (index == job->sessions.size()) {
    MutexLock lock(&job->mu);
    job->reply.set_done(true);
    return;
  }
  const uint64_t id = job->sessions[index];
  const absl::Duration deadline = job->deadline;
  const auto done = [host, job, id, index](const absl::Status& status) {
    {
      MutexLock lock(&job->mu);
      auto* const one = job->reply.add_sessions();
      one->set_session(id);
      if (!status.ok()) one->set_error(std::string(status.message()));
    }
    Next(host, job, index + 1);
  };
  if (job->action == warpline_internal::ReplaceRequest::LIMIT) {
    return host->SetResident(id, job->resident_bytes, done);
  }
  if (job->action == warpline_internal::ReplaceRequest::REVOKE) {
    return host->Revoke(id, job->reason, done);
  }
  host->Do(ActionOf(job->action), id, deadline, done);
}

absl::StatusOr<warpline_internal::ReplaceReply> Replacements::Look(uint64_t ticket, size_t after,
                                                                   size_t most) {
  MutexLock lock(&mu_);
  const auto found = jobs_.find(ticket);
  if (found == jobs_.end()) {
    return absl::NotFoundError(absl::StrCat("no replacement ", ticket));
  }
  MutexLock job_lock(&found->second->mu);
  const warpline_internal::ReplaceReply all = found->second->reply;
  const auto size = static_cast<size_t>(all.sessions_size());
  const size_t begin = std::min(after, size);
  const size_t end = begin + std::min(most, size - begin);
  warpline_internal::ReplaceReply reply;
  for (size_t i = begin; i < end; ++i) *reply.add_sessions() = all.sessions(static_cast<int>(i));
  reply.set_ticket(ticket);
  reply.set_done(all.done() && end == size);
  return reply;
}

}  // namespace warpline::server
