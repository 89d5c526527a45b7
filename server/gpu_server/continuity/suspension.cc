#include "server/gpu_server/continuity/suspension.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/hostlink/handover/journal_file.h"

namespace warpline::server {
namespace {

absl::Status MayEndWorkerOf(const SessionStanding& standing) {
  const std::string obstacle = WhyNotReplaceable(standing, /*saves_variables=*/true);
  if (obstacle.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("its worker cannot be ended: ", obstacle));
}

}  // namespace

void Suspension::Begin(absl::Duration deadline, Done done) {
  if (done_) return done(absl::FailedPreconditionError("it is being suspended already"));
  // Before its memory is moved for nothing.
  if (const absl::Status may = MayEndWorkerOf(parts_.standing()); !may.ok()) return done(may);
  done_ = std::move(done);
  parts_.paging->Out(deadline, [this, round = round_](const absl::Status& status) {
    control_loop.AssertOnLoop();
    if (round != round_) return;
    status.ok() ? OnAway() : Forget(status);
  });
}

void Suspension::OnAway() {
  // The commands that were in flight may have changed it.
  const SessionStanding standing = parts_.standing();
  if (const absl::Status may = MayEndWorkerOf(standing); !may.ok()) return Forget(may);
  if ((standing.journal_flags & kJournalVariables) == 0) return EndWorker();
  saving_ = true;
  parts_.saver->Save([this](absl::StatusOr<UniqueFd> saved) {
    control_loop.AssertOnLoop();
    saving_ = false;
    if (!saved.ok()) return Forget(saved.status());
    variables_ = *std::move(saved);
    EndWorker();
  });
}

void Suspension::EndWorker() {
  if (!parts_.paging->away()) {
    return Forget(absl::AbortedError("its client has gone on meanwhile"));
  }
  parts_.end_worker();
}

void Suspension::OnWorkerGone() {
  if (done_) std::exchange(done_, nullptr)(absl::OkStatus());
}

void Suspension::Forget(const absl::Status& status) {
  ++round_;
  if (std::exchange(saving_, false)) parts_.saver->Forget();
  variables_ = UniqueFd();
  if (done_) std::exchange(done_, nullptr)(status);
}

}  // namespace warpline::server
