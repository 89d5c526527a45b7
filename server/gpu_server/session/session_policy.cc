// What the server's policy says of a session: that it may be opened, and that it is in the way.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/text.h"
#include "proto/refusal.h"
#include "server/gpu_server/session/session.h"

namespace warpline::server {
namespace {

// How soon the policy is asked again about a session that it has wait.
constexpr absl::Duration kLeastQueued = absl::Milliseconds(1);

}  // namespace

std::string Session::policy_tenant() const {
  return PolicyTenantOf(entitlement(), membership_.payer());
}

void Session::AskPolicy() {
  if (parts_.dispatcher == nullptr) return BeginOpening();
  policy::SubmitContext context;
  context.bytes = hello_.initial_memory().want_bytes();
  const policy::Verdict verdict =
      parts_.dispatcher->AskSubmit(policy_tenant(), placed_.front()->ordinal(), id_, context);
  if (verdict.action == policy::Action::kReject) {
    return Refuse(absl::PermissionDeniedError("the server's policy refuses the session"));
  }
  if (verdict.action != policy::Action::kHold) return BeginOpening();
  const absl::Duration left = parts_.options->most_queued - queued_;
  if (left <= absl::ZeroDuration()) {
    return Refuse(NoRoom(absl::StrCat("the server's policy has had the session wait for ",
                                      absl::FormatDuration(queued_))));
  }
  const absl::Duration wait =
      std::min(std::max(absl::Microseconds(verdict.argument), kLeastQueued), left);
  queued_ += wait;
  SetTimer(wait, &Session::AskPolicy);
}

absl::Status Session::JoinDispatch() {
  if (parts_.dispatcher == nullptr) return absl::OkStatus();
  dispatch::DispatchTerms terms = DispatchTermsOf(Facts(), membership_.payer());
  terms.on_pace = [self = weak_from_this(), control = parts_.control](uint32_t nap_us) {
    control->Post([self, nap_us] {
      control_loop.AssertOnLoop();
      if (const auto session = self.lock()) session->worker_.SetPace(nap_us);
    });
  };
  terms.on_kill = [self = weak_from_this(),
                   control = parts_.control](const dispatch::KillOrder& order) {
    control->Post([self, order] {
      control_loop.AssertOnLoop();
      if (const auto session = self.lock()) session->EndForUrgentWork(order);
    });
  };
  auto registration = parts_.dispatcher->Join(std::move(terms));
  if (!registration.ok()) return registration.status();
  worker_.SetDispatch(*std::move(registration));
  return absl::OkStatus();
}

// The application does not hear who is more urgent.
void Session::EndForUrgentWork(const dispatch::KillOrder& order) {
  // What has failed, or ends, has nothing in flight.
  const bool over =
      state_ == State::kFaulted || state_ == State::kEnding || state_ == State::kEnded;
  if (over || std::exchange(killed_, true)) return;
  const std::string message = absl::StrCat(
      "ended by policy ", order.policy, ": best-effort work held gpu ", order.gpu, " for ",
      absl::FormatDuration(
          absl::Trunc(absl::Nanoseconds(order.in_way_ns), absl::Microseconds(100))),
      " while more urgent work waited");
  parts_.books->counters.killed.Add(1);
  audit_->Killed(message, order.urgent);
  if (const LogPermit permit = lines_.Ask(kKilledLine)) {
    permit.Info("best-effort session ended ", lines_.Keys(),
                " urgent_tenant=", Quoted(order.urgent), " reason=", Quoted(message));
  }
  EndWithFault(CudaResult::kLaunchTimeout, message);
}

}  // namespace warpline::server
