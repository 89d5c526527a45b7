// A lease that `warpline run` holds, from a scheduler or from a server without one.
#ifndef WARPLINE_TOOLS_CLI_LEASE_H_
#define WARPLINE_TOOLS_CLI_LEASE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/leases.pb.h"
#include "transport/grpc/unary/leader_client.h"

namespace warpline::cli {

// How a request waits for its lease.
struct LeaseWait {
  absl::Duration at_most = absl::InfiniteDuration();
  // Shows what is known of the wait, takes the time `pause`, and returns false to end waiting.
  std::function<bool(const warpline_internal::WaitingReply& known, absl::Duration pause)> pause;
};

// Thread-safe.
class Lease {
 public:
  // Asks the server or scheduler that answers at `endpoint`, or whichever leads of the schedulers
  // that it names, separated by commas. Errors say what to do about them.
  static absl::StatusOr<std::unique_ptr<Lease>> Acquire(
      const std::string& endpoint, const warpline_internal::AcquireRequest& request);

  // Like Acquire(), but waits if there may be a lease later. The wait outlives a change of
  // schedulers, and each request shows the credential that TenantCredential() has at that time.
  // DEADLINE_EXCEEDED after the time of `wait`, CANCELLED when that ended waiting.
  static absl::StatusOr<std::unique_ptr<Lease>> AcquireWaiting(
      const std::string& endpoint, warpline_internal::AcquireRequest request,
      const LeaseWait& wait);

  // Takes a lease over that another process has acquired from `endpoint`, as granted() there says,
  // with its latest token.
  static std::unique_ptr<Lease> Resume(const std::string& endpoint,
                                       warpline_internal::LeaseReply granted);

  // The endpoint where sessions are opened.
  const std::string& endpoint() const { return endpoint_; }
  // The first reply, with the token of then.
  const warpline_internal::LeaseReply& granted() const { return granted_; }

  // Returns the reply with the fresh token. UNAVAILABLE when there is no answer, NOT_FOUND when the
  // lease is over, FAILED_PRECONDITION when it was ended.
  absl::StatusOr<warpline_internal::LeaseReply> Renew(const std::string& token);
  absl::Status Release(const std::string& token);

 private:
  Lease(std::unique_ptr<LeaderClient> client, warpline_internal::LeaseReply granted);

  const std::unique_ptr<LeaderClient> client_;
  const warpline_internal::LeaseReply granted_;
  const std::string endpoint_;
};

// The target through which the command line reaches the one address `endpoint`.
GrpcTarget TargetOf(const std::string& endpoint);

// Returns a client of the addresses that `endpoint` names, separated by commas.
LeaderClient ClientOf(const std::string& endpoint);

// The value of WARPLINE_CREDENTIAL, or the word in WARPLINE_CREDENTIAL_FILE, or an empty text. The
// errors are those of ReadWordFile().
absl::StatusOr<std::string> TenantCredential();
// The word in WARPLINE_OPERATOR_CREDENTIAL_FILE, or the credential in the scheduler's default state
// folder, or an empty text.
absl::StatusOr<std::string> OperatorCredential();
// Returns whether this process runs under a lease for `endpoint` already.
bool HasLeaseFor(const std::string& endpoint);
// Returns the token of that lease, or an empty text where there is none. NOT_FOUND when the token
// cannot be had (ReadLeaseToken()).
absl::StatusOr<std::string> TokenOfLease(const std::string& endpoint);

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_LEASE_H_
