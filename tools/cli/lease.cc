#include "tools/cli/lease.h"

#include <cstdlib>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/endpoint.h"

namespace warpline::cli {
namespace {

using warpline_internal::AcquireRequest;
using warpline_internal::LeaseReply;
using warpline_internal::Nothing;

constexpr absl::Duration kAcquireTimeout = absl::Seconds(5);
constexpr absl::Duration kRenewTimeout = absl::Seconds(5);
constexpr absl::Duration kReleaseTimeout = absl::Seconds(2);

constexpr char kScheduler[] = "/warpline_internal.Scheduler/";
constexpr char kServer[] = "/warpline_internal.Admin/";

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<std::string> FirstWordOf(const std::string& path, const char* variable) {
  std::ifstream file(path);
  std::string word;
  if (file >> word) return word;
  return absl::NotFoundError(
      absl::StrCat("cannot read a credential from ", path, " (", variable, ")"));
}

// The scheduler answers so itself.
bool HasNoServer(const absl::Status& status) {
  return absl::StrContains(status.message(), "no server with a device is up");
}

absl::Status Explain(const absl::Status& status, const std::string& endpoint) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      if (HasNoServer(status)) {
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
  if (!credential.empty() || path.empty()) return credential;
  return FirstWordOf(path, "WARPLINE_CREDENTIAL_FILE");
}

absl::StatusOr<std::string> OperatorCredential() {
  constexpr char kVariable[] = "WARPLINE_OPERATOR_CREDENTIAL_FILE";
  const std::string path = Variable(kVariable);
  if (!path.empty()) return FirstWordOf(path, kVariable);
  // Looks at the state of a scheduler that this user runs, and at that of the service.
  for (const std::string& folder : {DefaultSchedulerState(), std::string(kSchedulerServiceState)}) {
    auto credential = FirstWordOf(folder + "/operator.credential", kVariable);
    if (credential.ok()) return credential;
  }
  return "";
}

Lease::Lease(std::unique_ptr<LeaderClient> client, bool of_scheduler, LeaseReply granted)
    : client_(std::move(client)),
      of_scheduler_(of_scheduler),
      granted_(std::move(granted)),
      endpoint_(of_scheduler ? granted_.endpoint() : client_->address()) {}

absl::StatusOr<std::unique_ptr<Lease>> Lease::Acquire(const std::string& endpoint,
                                                      const AcquireRequest& request) {
  auto client = std::make_unique<LeaderClient>(ParseAddresses(endpoint), &TargetOf);
  bool of_scheduler = true;
  auto reply = CallUnary<LeaseReply>(client.get(), absl::StrCat(kScheduler, "Acquire"), request,
                                     kAcquireTimeout, &HasNoServer);
  if (reply.status().code() == absl::StatusCode::kUnimplemented) {
    of_scheduler = false;
    AcquireRequest plain = request;
    // The credential is not for a server.
    plain.clear_credential();
    reply = CallUnary<LeaseReply>(client.get(), absl::StrCat(kServer, "OpenLease"), plain,
                                  kAcquireTimeout);
  }
  if (!reply.ok()) return Explain(reply.status(), endpoint);
  return std::unique_ptr<Lease>(new Lease(std::move(client), of_scheduler, *std::move(reply)));
}

absl::StatusOr<std::string> Lease::Renew(const std::string& token) {
  warpline_internal::LeaseToken request;
  request.set_token(token);
  const auto reply = CallUnary<LeaseReply>(
      client_.get(),
      of_scheduler_ ? absl::StrCat(kScheduler, "Renew") : absl::StrCat(kServer, "RenewLease"),
      request, kRenewTimeout);
  if (!reply.ok()) return reply.status();
  return reply->token();
}

absl::Status Lease::Release(const std::string& token) {
  warpline_internal::LeaseToken request;
  request.set_token(token);
  return CallUnary<Nothing>(client_.get(),
                            of_scheduler_ ? absl::StrCat(kScheduler, "Release")
                                          : absl::StrCat(kServer, "CloseLease"),
                            request, kReleaseTimeout)
      .status();
}

}  // namespace warpline::cli
