#include "client_stub/session/handshake/opening_answer.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace warpline::stub {

void OpeningAnswer::Give(const absl::Status& answer) {
  MutexLock lock(&mu_);
  if (!answer_.has_value()) answer_ = answer;
  given_.NotifyAll();
}

bool OpeningAnswer::End(const absl::Status& status) {
  MutexLock lock(&mu_);
  if (answer_.has_value()) return answer_->ok();
  answer_ =
      status.ok() ? absl::UnavailableError("the server ended the session at its opening") : status;
  lost_ = absl::IsUnavailable(*answer_);
  given_.NotifyAll();
  return false;
}

absl::Status OpeningAnswer::Await(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(&mu_);
  while (!answer_.has_value()) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError(
          absl::StrCat("the server accepted the connection but did not open a session within ",
                       absl::FormatDuration(timeout)));
    }
    given_.WaitWithTimeout(&mu_, left);
  }
  return *answer_;
}

bool OpeningAnswer::lost() const {
  MutexLock lock(&mu_);
  return lost_;
}

}  // namespace warpline::stub
