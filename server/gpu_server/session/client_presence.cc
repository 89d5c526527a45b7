#include "server/gpu_server/session/client_presence.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/text.h"

namespace warpline::server {
namespace {

constexpr char kProcessEnded[] = "client vanished: its process has ended";
constexpr char kProcessReplaced[] = "client vanished: its process executes another program";

}  // namespace

void ClientPresence::Begin(ClientProcess client, absl::Duration patience) {
  client_ = std::move(client);
  patience_ = patience;
  life_.Watch(client_, [this] {
    control_loop.AssertOnLoop();
    OnProcessEnded();
  });
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
  control_->Remove(std::exchange(last_words_timer_, 0));
  if (!gone() && ExecutesAnotherProgram(client_)) why_gone_ = kProcessReplaced;
  // Not from within.
  if (gone()) return GiveUpAfter(absl::ZeroDuration(), &away_timer_, why_gone_);
  GiveUpAfter(patience_, &away_timer_,
              absl::StrCat("client vanished: not back within ", absl::FormatDuration(patience_)));
}

void ClientPresence::Return(bool moved) {
  control_->Remove(std::exchange(away_timer_, 0));
  ++(moved ? transfers_ : resumes_);
  (moved ? counters_->transfers : counters_->resumes).Add(1);
  if (const LogPermit permit = lines_->Ask(kConnectionLine)) {
    permit.Info(moved ? "moved " : "resumed ", lines_->Keys());
  }
}

void ClientPresence::OnProcessEnded() {
  why_gone_ = kProcessEnded;
  if (away()) return GiveUpNow(why_gone_);
  GiveUpAfter(kLastWords, &last_words_timer_, why_gone_);
}

void ClientPresence::GiveUpAfter(absl::Duration delay, EventLoop::Token* timer,
                                 const std::string& reason) {
  control_->Remove(*timer);
  *timer = control_->RunAfter(delay, [this, reason] {
    control_loop.AssertOnLoop();
    GiveUpNow(reason);
  });
}

void ClientPresence::GiveUpNow(const std::string& reason) {
  StopTimers();
  given_up_(reason);
}

void ClientPresence::StopTimers() {
  control_->Remove(std::exchange(away_timer_, 0));
  control_->Remove(std::exchange(last_words_timer_, 0));
}

void ClientPresence::End() {
  life_.Stop();
  StopTimers();
}

void ClientPresence::Describe(ContinuitySnapshot* snapshot) const {
  snapshot->resumes = resumes_;
  snapshot->transfers = transfers_;
}

}  // namespace warpline::server
