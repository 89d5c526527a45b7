#include "server/session/client_presence.h"

#include <utility>

#include "common/text.h"

namespace warpline::server {

void ClientPresence::MayReturn(ClientProcess client, absl::Duration patience) {
  client_ = std::move(client);
  patience_ = patience;
}

bool ClientPresence::CanReturnAfter(const absl::Status& status) const {
  return patience_ > absl::ZeroDuration() &&
         (absl::IsUnavailable(status) || absl::IsAborted(status));
}

void ClientPresence::Leave(const absl::Status& status) {
  if (const LogPermit permit = lines_->Ask(kConnectionLine)) {
    permit.Info("detached ", lines_->Keys(), " peer=", lines_->peer(),
                " reason=", Quoted(status.message()));
  }
  absence_.Begin(client_, patience_, given_up_);
}

void ClientPresence::Return(bool moved) {
  absence_.End();
  ++(moved ? transfers_ : resumes_);
  (moved ? counters_->transfers : counters_->resumes).Add(1);
  if (const LogPermit permit = lines_->Ask(kConnectionLine)) {
    permit.Info(moved ? "moved " : "resumed ", lines_->Keys());
  }
}

void ClientPresence::Describe(ContinuitySnapshot* snapshot) const {
  snapshot->resumes = resumes_;
  snapshot->transfers = transfers_;
}

}  // namespace warpline::server
