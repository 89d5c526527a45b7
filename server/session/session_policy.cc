// What the server's policy says of a session that is to be opened.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/refusal.h"
#include "server/session/session.h"

namespace warpline::server {
namespace {

// How soon the policy is asked again about a session that it has wait.
constexpr absl::Duration kLeastQueued = absl::Milliseconds(1);

}  // namespace

std::string Session::policy_tenant() const { return PolicyTenantOf(entitlement(), seat_.payer()); }

void Session::AskPolicy() {
  if (context_.dispatcher == nullptr) return BeginOpening();
  policy::SubmitContext context;
  context.bytes = hello_.initial_memory().want_bytes();
  const policy::Verdict verdict =
      context_.dispatcher->AskSubmit(policy_tenant(), placed_.front()->ordinal(), id_, context);
  if (verdict.action == policy::Action::kReject) {
    return Refuse(absl::PermissionDeniedError("the server's policy refuses the session"));
  }
  if (verdict.action != policy::Action::kHold) return BeginOpening();
  const absl::Duration left = context_.options->most_queued - queued_;
  if (left <= absl::ZeroDuration()) {
    return Refuse(NoRoom(absl::StrCat("the server's policy has had the session wait for ",
                                      absl::FormatDuration(queued_))));
  }
  const absl::Duration wait =
      std::min(std::max(absl::Microseconds(verdict.argument), kLeastQueued), left);
  queued_ += wait;
  SetTimer(wait, &Session::AskPolicy);
}

}  // namespace warpline::server
