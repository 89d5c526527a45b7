// A lease that `warpline run` holds: of a scheduler, or of a server that has none.
#ifndef WARPLINE_TOOLS_CLI_LEASE_H_
#define WARPLINE_TOOLS_CLI_LEASE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/scheduler.pb.h"
#include "transport/grpc/unary/unary_client.h"

namespace warpline::cli {

// Thread-safe.
class Lease {
 public:
  // Asks whatever answers at `endpoint`. Errors say what to do about them.
  static absl::StatusOr<std::unique_ptr<Lease>> Acquire(
      const std::string& endpoint, const warpline_internal::AcquireRequest& request);

  // Where sessions are opened.
  const std::string& endpoint() const { return endpoint_; }
  // What was said at first, and the token of then.
  const warpline_internal::LeaseReply& granted() const { return granted_; }

  // The fresh token. UNAVAILABLE when nobody answers, NOT_FOUND when the lease is over,
  // FAILED_PRECONDITION when it was ended.
  absl::StatusOr<std::string> Renew(const std::string& token);
  absl::Status Release(const std::string& token);

 private:
  Lease(std::unique_ptr<UnaryClient> client, bool of_scheduler,
        warpline_internal::LeaseReply granted);

  const std::unique_ptr<UnaryClient> client_;
  const bool of_scheduler_;
  const warpline_internal::LeaseReply granted_;
  const std::string endpoint_;
};

// How the command line reaches `endpoint`.
GrpcTarget TargetOf(const std::string& endpoint);

// WARPLINE_CREDENTIAL, or what is in WARPLINE_CREDENTIAL_FILE, or nothing. NOT_FOUND when the file
// cannot be read.
absl::StatusOr<std::string> TenantCredential();
// What is in WARPLINE_OPERATOR_CREDENTIAL_FILE, or in the scheduler's default state folder, or
// nothing.
absl::StatusOr<std::string> OperatorCredential();

}  // namespace warpline::cli

#endif  // WARPLINE_TOOLS_CLI_LEASE_H_
