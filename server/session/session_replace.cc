// Replacement of a session's worker on request.
//
// Nothing more goes to the worker; when what it has is complete, it copies out what the next one
// could not make again from the journal, and ends. Until then the session can go on with it.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/steady_time.h"
#include "server/handover/variable_file.h"
#include "server/session/session.h"

namespace warpline {
namespace {

// Between looks at whether nothing is in flight.
constexpr absl::Duration kReplacePoll = absl::Milliseconds(1);

}  // namespace

void Session::ReplaceWorker(absl::Duration deadline, std::function<void(absl::Status)> done) {
  if (state_ != State::kOpen) return done(absl::FailedPreconditionError("the session is not open"));
  if (replace_done_) return done(absl::FailedPreconditionError("it is being replaced already"));
  replace_done_ = std::move(done);
  rings_->Freeze();
  PollForReplace(SteadyNow() + deadline);
}

void Session::PollForReplace(absl::Time deadline) {
  replace_timer_ = 0;
  if (state_ != State::kOpen) return AnswerReplace(absl::AbortedError("the session ended"));
  if (rings_->Freeze() == journal_->retired_seq()) {
    const uint32_t flags = journal_->flags();
    const std::string obstacle = WhyNotReplaceable(flags & ~uint32_t{kJournalVariables});
    if (!obstacle.empty()) return GiveUpReplacing(absl::FailedPreconditionError(obstacle));
    if ((flags & kJournalVariables) != 0) return SaveVariables();
    return BeginReplacing("replaced on request");
  }
  if (SteadyNow() >= deadline) {
    return GiveUpReplacing(absl::DeadlineExceededError("commands are still in flight"));
  }
  replace_timer_ = context_.control->RunAfter(
      kReplacePoll, [self = shared_from_this(), deadline] { self->PollForReplace(deadline); });
}

void Session::SaveVariables() {
  auto file = CreateVariableFile();
  if (!file.ok()) return GiveUpReplacing(file.status());
  saved_variables_ = *std::move(file);
  warpline_internal::ToWorker message;
  message.mutable_save()->set_id(++save_id_);
  const int fd = saved_variables_.get();
  const absl::Status sent = worker_->Send(message, {&fd, 1});
  if (!sent.ok()) return GiveUpReplacing(sent);
  replace_timer_ = context_.control->RunAfter(
      context_.options->open_timeout, [self = shared_from_this(), id = save_id_] {
        if (self->AwaitsSaved(id)) {
          self->GiveUpReplacing(absl::DeadlineExceededError("its module variables were not saved"));
        }
      });
}

// False for an answer that comes too late.
bool Session::AwaitsSaved(uint64_t id) const {
  return state_ == State::kOpen && replace_done_ && saved_variables_.valid() && id == save_id_;
}

void Session::OnVariablesSaved(const warpline_internal::VariablesSaved& saved) {
  if (!AwaitsSaved(saved.id())) return;
  context_.control->Remove(replace_timer_);
  replace_timer_ = 0;
  if (saved.error() != 0) {
    return GiveUpReplacing(absl::FailedPreconditionError(
        absl::StrCat("its module variables cannot be saved: ", saved.message())));
  }
  BeginReplacing("replaced on request");
}

void Session::GiveUpReplacing(const absl::Status& status) {
  saved_variables_ = UniqueFd();
  rings_->Thaw();
  port_->Wake();
  AnswerReplace(status);
}

void Session::AnswerReplace(const absl::Status& status) {
  if (replace_done_) std::exchange(replace_done_, nullptr)(status);
}

}  // namespace warpline
