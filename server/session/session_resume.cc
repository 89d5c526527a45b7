// What a session does when its client loses the connection, and when it comes back.
#include <utility>

#include "absl/status/status.h"
#include "common/crypto/secret.h"
#include "common/text.h"
#include "server/session/session.h"

namespace warpline {

bool Session::HasSecret(const std::string& secret) const { return EqualSecrets(secret, secret_); }

void Session::HandleChannelClosed(const absl::Status& status) {
  // Another channel may have come before this was told.
  if (port_->attached()) return;
  if (MayResume(status)) return Detach(status);
  End(status.ok() ? "client closed" : status.ToString());
  MaybeFinish();
}

bool Session::MayResume(const absl::Status& status) const {
  // Lost, or given up for another channel that was lost in turn.
  return resumable_ && (Serving() || state_ == State::kFaulted) &&
         (absl::IsUnavailable(status) || absl::IsAborted(status));
}

void Session::Detach(const absl::Status& status) {
  if (const LogPermit permit = AskForLine(kConnectionLine)) {
    permit.Info("detached ", Keys(), " peer=", peer_, " reason=", Quoted(status.message()));
  }
  const ClientProcess client = {hello_.pid(), hello_.start_time(), hello_.boot_id(),
                                hello_.pid_namespace()};
  absence_.Begin(client, context_.options->resume_timeout,
                 [self = shared_from_this()](const std::string& reason) {
                   if (self->port_->attached()) return;
                   self->context_.counters->clients_vanished.Add(1);
                   self->End(reason);
                 });
}

void Session::OnResumed(bool moved) {
  context_.control->Post([self = shared_from_this(), moved] {
    if (!self->Serving() && self->state_ != State::kFaulted) return;
    self->absence_.End();
    ++(moved ? self->transfers_ : self->resumes_);
    (moved ? self->context_.counters->transfers : self->context_.counters->resumes).Add(1);
    if (const LogPermit permit = self->AskForLine(kConnectionLine)) {
      permit.Info(moved ? "moved " : "resumed ", self->Keys());
    }
  });
}

}  // namespace warpline
