#include "server/gpu_server/continuity/replacement.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/hostlink/handover/journal_file.h"
#include "server/hostlink/handover/variable_file.h"

namespace warpline::server {

std::string WhyNotReplaceable(size_t devices, uint32_t journal_flags) {
  if (devices > 1) return "it had several devices, which no other worker takes over";
  if ((journal_flags & kJournalFaulted) != 0) return "it had failed with a sticky error";
  if ((journal_flags & kJournalVariables) != 0) {
    return "its kernels may have written module variables, which are lost with it";
  }
  if ((journal_flags & kJournalHeap) != 0) {
    return "its kernels may have allocated memory of the device's heap, which is lost with it";
  }
  if ((journal_flags & kJournalDevices) != 0) return "it had several devices";
  if ((journal_flags & kJournalIncomplete) != 0) return "its journal was full";
  if ((journal_flags & kJournalObjects) != 0) {
    return "it had arrays or textures, which are lost with it";
  }
  return "";
}

void Replacement::Begin(absl::Duration deadline, Done done) {
  if (done_) return done(absl::FailedPreconditionError("it is being replaced already"));
  done_ = std::move(done);
  parts_.rest->Begin(Rest::Reason::kReplacement, deadline, [this](const absl::Status& status) {
    control_loop.AssertOnLoop();
    OnRested(status);
  });
}

void Replacement::OnRested(const absl::Status& status) {
  if (!status.ok()) return Finish(status);
  const auto [flags, devices] = parts_.standing();
  const std::string obstacle = WhyNotReplaceable(devices, flags & ~uint32_t{kJournalVariables});
  if (!obstacle.empty()) return GiveUp(absl::FailedPreconditionError(obstacle));
  if ((flags & kJournalVariables) != 0) return SaveVariables();
  parts_.take_over(UniqueFd());
}

void Replacement::SaveVariables() {
  auto file = CreateVariableFile();
  if (!file.ok()) return GiveUp(file.status());
  variables_ = *std::move(file);
  saving_ = ++last_save_;
  warpline_internal::ToWorker message;
  message.mutable_save()->set_id(saving_);
  const int fd = variables_.get();
  const absl::Status sent = parts_.worker->Send(message, {&fd, 1});
  if (!sent.ok()) return GiveUp(sent);
  timer_ = parts_.timers->RunAfter(parts_.save_timeout, [this] {
    control_loop.AssertOnLoop();
    timer_ = 0;
    GiveUp(absl::DeadlineExceededError("its module variables were not saved"));
  });
}

void Replacement::OnVariablesSaved(const warpline_internal::VariablesSaved& saved) {
  // Otherwise it comes too late.
  if (saving_ == 0 || saved.id() != saving_) return;
  if (saved.error() != 0) {
    return GiveUp(absl::FailedPreconditionError(
        absl::StrCat("its module variables cannot be saved: ", saved.message())));
  }
  saving_ = 0;
  parts_.timers->Remove(std::exchange(timer_, 0));
  parts_.take_over(std::move(variables_));
}

void Replacement::GiveUp(const absl::Status& status) {
  parts_.rest->Release();
  Finish(status);
}

void Replacement::Finish(const absl::Status& status) {
  parts_.rest->Forget(Rest::Reason::kReplacement);
  parts_.timers->Remove(std::exchange(timer_, 0));
  saving_ = 0;
  variables_ = UniqueFd();
  if (done_) std::exchange(done_, nullptr)(status);
}

}  // namespace warpline::server
