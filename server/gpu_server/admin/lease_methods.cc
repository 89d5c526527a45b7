#include "server/gpu_server/admin/lease_methods.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/serving/listen_address.h"
#include "common/text_file.h"
#include "lease/end_reason.h"
#include "lease/entitlement.h"
#include "lease/token.h"
#include "proto/lease_methods.h"
#include "proto/leases.pb.h"
#include "server/gpu_server/leases/placement.h"

namespace warpline::server {
namespace {

using warpline_internal::AcquireRequest;
using warpline_internal::LeaseReply;
using warpline_internal::Nothing;
using warpline_internal::WithdrawRequest;

// Clients send their tenant's credential to whichever answers, and it may be a file's whole word.
constexpr size_t kMostRequestBytes = 4096 + kMaxWordBytes;

template <typename Request>
absl::StatusOr<Request> Parse(const std::string& bytes, size_t most_bytes) {
  Request request;
  if (bytes.size() > most_bytes || !request.ParseFromString(bytes)) {
    return absl::InvalidArgumentError("a malformed request");
  }
  return request;
}

absl::StatusOr<std::string> TokenOf(const std::string& bytes) {
  auto request = Parse<warpline_internal::LeaseToken>(bytes, 2 * kMaxTokenText);
  if (!request.ok()) return request.status();
  return request->token();
}

// All devices of a host have one driver.
int DriverVersion(SessionHost* host) {
  const HostSnapshot snapshot = host->Snapshot();
  return snapshot.devices.empty() ? 0 : snapshot.devices.front().info.driver_version();
}

// Empty where the server chooses one for each session.
absl::StatusOr<DeviceNames> DevicesFor(SessionHost* host, const AcquireRequest& request) {
  if (request.device().empty() && request.devices() <= 1) return DeviceNames();
  std::vector<PlacementCandidate> candidates;
  for (const DeviceSnapshot& device : host->Snapshot().devices) {
    candidates.push_back({device.info.uuid(), device.sessions});
  }
  return PlaceLease(candidates, ParseDeviceNames(request.device()), request.devices());
}

absl::StatusOr<std::string> ReplyWith(const LeaseBook& book, int driver_version,
                                      const absl::StatusOr<warpline::LeaseToken>& lease,
                                      const std::string& text) {
  if (!lease.ok()) return lease.status();
  LeaseReply reply;
  reply.set_lease(lease->lease);
  reply.set_token(text);
  reply.set_server(lease->server);
  reply.set_device(FormatDeviceNames(lease->devices));
  reply.set_tenant(lease->tenant);
  reply.set_memory_bytes(lease->slice.memory_bytes);
  reply.set_driver_version(driver_version);
  reply.set_renew_ms(
      static_cast<uint32_t>(absl::ToInt64Milliseconds(book.options().local_ttl / 3)));
  return reply.SerializeAsString();
}

absl::Status CheckWhatIsAsked(const AcquireRequest& request) {
  if (!request.slice().empty()) {
    return absl::FailedPreconditionError(
        "slices are a scheduler's, and this server gives out leases of its own: leave out "
        "--slice and WARPLINE_SLICE, or name a scheduler as endpoint");
  }
  if (!request.ticket().empty()) {
    return absl::FailedPreconditionError(
        "only schedulers let programs --wait, and this server gives out leases of its own: leave "
        "out --wait, or name a scheduler as endpoint");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Acquire(SessionHost* host, LeaseBook* book, const std::string& peer,
                                    const std::string& bytes) {
  const auto request = Parse<AcquireRequest>(bytes, kMostRequestBytes);
  if (!request.ok()) return request.status();
  if (auto status = CheckWhatIsAsked(*request); !status.ok()) return status;
  auto devices = DevicesFor(host, *request);
  if (!devices.ok()) return devices.status();
  std::string text;
  const auto lease = book->OpenLocal(request->memory_bytes(), *std::move(devices),
                                     request->sessions(), &text, HolderOf(peer), PeerUnit(peer));
  return ReplyWith(*book, DriverVersion(host), lease, text);
}

absl::StatusOr<std::string> Renew(SessionHost* host, LeaseBook* book, const std::string& peer,
                                  const std::string& bytes) {
  const auto token = TokenOf(bytes);
  if (!token.ok()) return token.status();
  std::string text;
  const auto lease = book->RenewLocal(*token, &text, HolderOf(peer));
  return ReplyWith(*book, DriverVersion(host), lease, text);
}

absl::StatusOr<std::string> Release(SessionHost* host, LeaseBook* book, const std::string& bytes) {
  const auto token = TokenOf(bytes);
  if (!token.ok()) return token.status();
  const auto lease = book->CloseLocal(*token);
  if (!lease.ok()) return lease.status();
  host->EndLease(*lease, {"the program that held it has ended", EndCause::kNamesNobody});
  return Nothing().SerializeAsString();
}

// No request waits at a server.
absl::StatusOr<std::string> Withdraw(const std::string& bytes) {
  const auto request = Parse<WithdrawRequest>(bytes, kMostRequestBytes);
  if (!request.ok()) return request.status();
  return Nothing().SerializeAsString();
}

}  // namespace

void AddLeaseMethods(SessionHost* host, LeaseBook* book, UnaryMethods* methods) {
  (*methods)[kAcquireMethod] = [host, book](const std::string& peer, const std::string& bytes) {
    return Acquire(host, book, peer, bytes);
  };
  (*methods)[kRenewMethod] = [host, book](const std::string& peer, const std::string& bytes) {
    return Renew(host, book, peer, bytes);
  };
  (*methods)[kReleaseMethod] = [host, book](const std::string&, const std::string& bytes) {
    return Release(host, book, bytes);
  };
  (*methods)[kWithdrawMethod] = [](const std::string&, const std::string& bytes) {
    return Withdraw(bytes);
  };
}

}  // namespace warpline::server
