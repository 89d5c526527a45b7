#include "server/gpu_server/continuity/replacement.h"

#include <utility>

#include "server/hostlink/handover/journal_file.h"

namespace warpline::server {

std::string WhyNotReplaceable(const SessionStanding& standing, bool saves_variables) {
  const uint32_t journal_flags = standing.journal_flags;
  if (standing.devices > 1) return "it had several devices, which no other worker takes over";
  if ((journal_flags & kJournalFaulted) != 0) return "it had failed with a sticky error";
  if ((journal_flags & kJournalVariables) != 0 && !saves_variables) {
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
  const SessionStanding standing = parts_.standing();
  const std::string obstacle = WhyNotReplaceable(standing, /*saves_variables=*/true);
  if (!obstacle.empty()) return GiveUp(absl::FailedPreconditionError(obstacle));
  if ((standing.journal_flags & kJournalVariables) == 0) return parts_.take_over(UniqueFd());
  saving_ = true;
  parts_.saver->Save([this](absl::StatusOr<UniqueFd> saved) {
    control_loop.AssertOnLoop();
    saving_ = false;
    if (!saved.ok()) return GiveUp(saved.status());
    parts_.take_over(*std::move(saved));
  });
}

void Replacement::GiveUp(const absl::Status& status) {
  parts_.rest->Release();
  Finish(status);
}

void Replacement::Finish(const absl::Status& status) {
  parts_.rest->Forget(Rest::Reason::kReplacement);
  if (std::exchange(saving_, false)) parts_.saver->Forget();
  if (done_) std::exchange(done_, nullptr)(status);
}

}  // namespace warpline::server
