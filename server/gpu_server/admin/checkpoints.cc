#include "server/gpu_server/admin/checkpoints.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"

namespace warpline::server {

using warpline_internal::CheckpointReply;
using warpline_internal::CheckpointRequest;

namespace {

constexpr size_t kMostNumberBytes = 64;
constexpr size_t kMostPathBytes = 4096;
constexpr size_t kMostNameBytes = 256;
constexpr absl::Duration kMostWait = absl::Minutes(1);

bool IsWellFormed(const CheckpointRequest& request) {
  if (request.number().empty() || request.number().size() > kMostNumberBytes) return false;
  if (request.only_ask()) return true;
  const bool saves = request.action() == CheckpointRequest::SAVE;
  if (!saves && request.action() != CheckpointRequest::RESTORE) return false;
  if (request.folder().empty() || request.folder().front() != '/') return false;
  if (request.folder().size() > kMostPathBytes || request.lease().size() > kMostNameBytes ||
      request.device().size() > kMostNameBytes) {
    return false;
  }
  return !saves || request.lease().empty() == (request.session() != 0);
}

}  // namespace

absl::StatusOr<std::string> Checkpoints::Answer(const std::string& request) {
  CheckpointRequest parsed;
  if (!parsed.ParseFromString(request) || !IsWellFormed(parsed)) {
    return absl::InvalidArgumentError("a malformed request");
  }
  MutexLock lock(&mu_);
  CheckpointReply reply;
  const bool known = job_ != nullptr && job_->number == parsed.number();
  if (!known && parsed.only_ask()) return reply.SerializeAsString();
  if (!known) {
    if (const absl::Status started = Start(parsed); !started.ok()) return started;
  }
  reply.set_state(CheckpointReply::UNDER_WAY);
  reply.set_bytes(job_->progress.bytes.load());
  reply.set_done_bytes(job_->progress.done_bytes.load());
  if (!job_->outcome.has_value()) return reply.SerializeAsString();
  if (!job_->outcome->ok()) {
    reply.set_state(CheckpointReply::FAILED);
    reply.set_why(std::string(job_->outcome->status().message()));
    return reply.SerializeAsString();
  }
  const CheckpointResult& result = **job_->outcome;
  reply.set_state(CheckpointReply::DONE);
  reply.set_sessions(static_cast<uint32_t>(result.sessions));
  reply.set_bytes(result.bytes);
  reply.set_written_bytes(result.written_bytes);
  reply.set_pause_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(result.pause)));
  return reply.SerializeAsString();
}

absl::Status Checkpoints::Start(const CheckpointRequest& request) {
  if (space_ == nullptr) {
    return absl::FailedPreconditionError(
        "the server has no host memory for sessions' device memory: start it with --swap_host");
  }
  if (job_ != nullptr && !job_->outcome.has_value()) {
    return absl::ResourceExhaustedError("another checkpoint is being saved or restored; wait");
  }
  job_ = std::make_shared<Job>();
  job_->number = request.number();
  const CheckpointOrder order = {
      .dir = request.folder(),
      .space = space_,
      .lease = request.lease(),
      .session = request.session(),
      .ends = request.ends(),
      .deadline =
          std::clamp(absl::Milliseconds(request.deadline_ms()), absl::ZeroDuration(), kMostWait),
      .device = request.device(),
  };
  const bool saves = request.action() == CheckpointRequest::SAVE;
  loop_.Post([this, job = job_, order, saves] {
    Finish(job, (saves ? actions_.save : actions_.restore)(order, &job->progress));
  });
  return absl::OkStatus();
}

void Checkpoints::Finish(const std::shared_ptr<Job>& job,
                         absl::StatusOr<CheckpointResult> outcome) {
  MutexLock lock(&mu_);
  job->outcome = std::move(outcome);
}

std::optional<audit::Record> DescribeCheckpoint(const std::string& request) {
  CheckpointRequest parsed;
  if (!parsed.ParseFromString(request) || parsed.only_ask()) return std::nullopt;
  const bool saves = parsed.action() == CheckpointRequest::SAVE;
  return audit::Record{.event = audit::Event::kAdminCheckpoint,
                       .session = parsed.session(),
                       .texts = {{"action", saves ? "save" : "restore"},
                                 {"lease", parsed.lease()},
                                 {"folder", parsed.folder()}}};
}

}  // namespace warpline::server
