#include "server/gpu_server/continuity/variable_saver.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/hostlink/handover/variable_file.h"

namespace warpline::server {

void VariableSaver::Save(Saved saved) {
  if (saved_) {
    return saved(absl::FailedPreconditionError("its module variables are being saved already"));
  }
  auto file = CreateVariableFile();
  if (!file.ok()) return saved(file.status());
  saved_ = std::move(saved);
  file_ = *std::move(file);
  warpline_internal::ToWorker message;
  message.mutable_save()->set_id(++last_id_);
  const int fd = file_.get();
  const absl::Status sent = worker_->Send(message, {&fd, 1});
  if (!sent.ok()) return Finish(sent);
  timer_ = timers_->RunAfter(timeout_, [this] {
    control_loop.AssertOnLoop();
    timer_ = 0;
    Finish(absl::DeadlineExceededError("its module variables were not saved"));
  });
}

void VariableSaver::Forget() {
  timers_->Remove(std::exchange(timer_, 0));
  file_ = UniqueFd();
  saved_ = nullptr;
}

void VariableSaver::OnSaved(const warpline_internal::VariablesSaved& saved) {
  // Otherwise it comes too late.
  if (!saved_ || saved.id() != last_id_) return;
  if (saved.error() != 0) {
    return Finish(absl::FailedPreconditionError(
        absl::StrCat("its module variables cannot be saved: ", saved.message())));
  }
  Finish(std::move(file_));
}

void VariableSaver::Finish(absl::StatusOr<UniqueFd> result) {
  const Saved saved = std::exchange(saved_, nullptr);
  Forget();
  saved(std::move(result));
}

}  // namespace warpline::server
