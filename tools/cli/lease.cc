#include "tools/cli/lease.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/crypto/secret.h"
#include "common/endpoint.h"
#include "common/lease/lease_key.h"
#include "common/steady_time.h"
#include "common/text_file.h"
#include "proto/lease_methods.h"
#include "proto/refusal.h"
#include "tools/cli/call_timeout.h"

namespace warpline::cli {
namespace {

using warpline_internal::AcquireRequest;
using warpline_internal::LeaseReply;
using warpline_internal::Nothing;

constexpr absl::Duration kAskNobodyAgain = absl::Seconds(1);
constexpr size_t kTicketBytes = 16;
constexpr absl::Duration kRenewTimeout = absl::Seconds(5);
constexpr absl::Duration kReleaseTimeout = absl::Seconds(2);

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<std::string> CredentialOf(const std::string& path, const char* variable) {
  auto word = ReadWordFile(path);
  if (word.ok()) return word;
  return absl::Status(word.status().code(),
                      absl::StrCat(word.status().message(), " (", variable, ")"));
}

LeaseTokenPlace PlaceFor(const std::string& endpoint) {
  return {.key = Variable(kLeaseKeyVariable),
          .file = Variable("WARPLINE_TOKEN_FILE"),
          .endpoint = endpoint};
}

absl::Status Explain(const absl::Status& status, const std::string& endpoint) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      if (RefusalOf(status).reason() == warpline_internal::Refusal::NO_SERVER) {
        return absl::UnavailableError(absl::StrCat(
            "the scheduler at ", endpoint,
            " has no server: start one with `warpline serve --scheduler=", endpoint, "`"));
      }
      [[fallthrough]];
    case absl::StatusCode::kDeadlineExceeded:
      return absl::UnavailableError(
          absl::StrCat("no scheduler or server answers at ", endpoint, " (", status.message(),
                       "): start one there, or name another with --endpoint or WARPLINE_ENDPOINT"));
    case absl::StatusCode::kUnimplemented:
      return absl::UnimplementedError(
          absl::StrCat("what answers at ", endpoint, " gives out no leases: is it too old?"));
    default:
      return absl::Status(status.code(),
                          absl::StrCat("no lease from ", endpoint, ": ", status.message()));
  }
}

}  // namespace

GrpcTarget TargetOf(const std::string& endpoint) {
  return {.address = endpoint, .tls = ClientTls(endpoint)};
}

LeaderClient ClientOf(const std::string& endpoint) {
  return LeaderClient(ParseAddresses(endpoint), &TargetOf);
}

absl::StatusOr<std::string> TenantCredential() {
  const std::string credential = Variable("WARPLINE_CREDENTIAL");
  const std::string path = Variable("WARPLINE_CREDENTIAL_FILE");
  if (credential.empty()) {
    return path.empty() ? "" : CredentialOf(path, "WARPLINE_CREDENTIAL_FILE");
  }
  auto word = OnlyWordOf(credential);
  if (word.ok()) return word;
  return absl::InvalidArgumentError(
      absl::StrCat("the value of WARPLINE_CREDENTIAL: ", word.status().message()));
}

absl::StatusOr<std::string> OperatorCredential() {
  constexpr char kVariable[] = "WARPLINE_OPERATOR_CREDENTIAL_FILE";
  const std::string path = Variable(kVariable);
  if (!path.empty()) return CredentialOf(path, kVariable);
  // Looks at the state of a scheduler that this user runs, and at that of the service.
  for (const std::string& folder : {DefaultSchedulerState(), std::string(kSchedulerServiceState)}) {
    auto credential = CredentialOf(folder + "/operator.credential", kVariable);
    if (credential.ok()) return credential;
  }
  return "";
}

bool HasLeaseFor(const std::string& endpoint) { return NamesLease(PlaceFor(endpoint)); }

absl::StatusOr<std::string> TokenOfLease(const std::string& endpoint) {
  return ReadLeaseToken(PlaceFor(endpoint));
}

Lease::Lease(std::unique_ptr<LeaderClient> client, LeaseReply granted)
    : client_(std::move(client)),
      granted_(std::move(granted)),
      endpoint_(granted_.endpoint().empty() ? client_->address() : granted_.endpoint()) {}

absl::StatusOr<std::unique_ptr<Lease>> Lease::Acquire(const std::string& endpoint,
                                                      const AcquireRequest& request) {
  auto client = std::make_unique<LeaderClient>(ParseAddresses(endpoint), &TargetOf);
  auto reply = CallUnary<LeaseReply>(client.get(), kAcquireMethod, request, CallTimeout());
  if (!reply.ok()) return Explain(reply.status(), endpoint);
  return std::unique_ptr<Lease>(new Lease(std::move(client), *std::move(reply)));
}

absl::StatusOr<std::unique_ptr<Lease>> Lease::AcquireWaiting(const std::string& endpoint,
                                                             AcquireRequest request,
                                                             const LeaseWait& wait) {
  auto client = std::make_unique<LeaderClient>(ParseAddresses(endpoint), &TargetOf);
  request.set_ticket(absl::BytesToHexString(RandomBytes(kTicketBytes)));
  warpline_internal::WithdrawRequest withdrawal;
  withdrawal.set_ticket(request.ticket());
  const auto renew_credential = [&] {
    const auto fresh = TenantCredential();
    if (fresh.ok() && !fresh->empty()) request.set_credential(*fresh);
  };
  const auto withdraw = [&] {
    renew_credential();
    withdrawal.set_credential(request.credential());
    // Where nobody answers, the scheduler drops it when it is not asked again.
    (void)CallUnary<Nothing>(client.get(), kWithdrawMethod, withdrawal, kReleaseTimeout);
  };
  const absl::Time until = SteadyNow() + wait.at_most;
  warpline_internal::WaitingReply known;
  bool waits = false;
  while (true) {
    // It may be a token that runs out while the program waits, and whose file has the next one.
    if (waits) renew_credential();
    auto reply = CallUnary<LeaseReply>(client.get(), kAcquireMethod, request, CallTimeout());
    if (reply.ok() && !reply->has_waiting()) {
      return std::unique_ptr<Lease>(new Lease(std::move(client), *std::move(reply)));
    }
    const auto code = reply.status().code();
    const bool nobody =
        code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded;
    if (!reply.ok() && !(waits && nobody)) return Explain(reply.status(), endpoint);
    // Another scheduler may be about to lead.
    absl::Duration pause = kAskNobodyAgain;
    if (reply.ok()) {
      waits = true;
      known = reply->waiting();
      pause = absl::Milliseconds(std::clamp<uint32_t>(known.ask_again_ms(), 100, 30000));
    }
    const absl::Duration left = until - SteadyNow();
    if (left <= absl::ZeroDuration()) {
      withdraw();
      return absl::DeadlineExceededError(absl::StrCat("no lease from ", endpoint, " within ",
                                                      absl::FormatDuration(wait.at_most), ": ",
                                                      known.reason()));
    }
    if (!wait.pause(known, std::min(pause, left))) {
      withdraw();
      return absl::CancelledError("waiting for a lease was ended");
    }
  }
}

std::unique_ptr<Lease> Lease::Resume(const std::string& endpoint, LeaseReply granted) {
  return std::unique_ptr<Lease>(new Lease(
      std::make_unique<LeaderClient>(ParseAddresses(endpoint), &TargetOf), std::move(granted)));
}

absl::StatusOr<LeaseReply> Lease::Renew(const std::string& token) {
  warpline_internal::LeaseToken request;
  request.set_token(token);
  return CallUnary<LeaseReply>(client_.get(), kRenewMethod, request, kRenewTimeout);
}

absl::Status Lease::Release(const std::string& token) {
  warpline_internal::LeaseToken request;
  request.set_token(token);
  return CallUnary<Nothing>(client_.get(), kReleaseMethod, request, kReleaseTimeout).status();
}

}  // namespace warpline::cli
