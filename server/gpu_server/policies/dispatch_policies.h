// The server's dispatcher with the policies that it can be told to ask.
#ifndef WARPLINE_SERVER_GPU_SERVER_POLICIES_DISPATCH_POLICIES_H_
#define WARPLINE_SERVER_GPU_SERVER_POLICIES_DISPATCH_POLICIES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "audit/audit_log.h"
#include "server/gpu_server/dispatch/dispatcher.h"
#include "server/gpu_server/policies/policy_book.h"

namespace warpline::server {

struct DispatchPoliciesOptions {
  // A built-in policy, or the file of an object, which has a '/' in its name.
  std::string policy = "band";
  absl::Duration quantum = absl::Milliseconds(6);
  absl::Duration expect = absl::Milliseconds(3);
  audit::AuditLog* audit = nullptr;  // Borrowed; null where nothing is recorded.
};

struct DispatchPolicies {
  // Outlives the dispatcher, whose thread tells it of policies that fail.
  std::unique_ptr<PolicyBook> book;
  std::unique_ptr<dispatch::Dispatcher> dispatcher;
};

// What policies note, and that one failed, is recorded and said in the log. The errors of
// PolicyBook::Load() and of reading the file.
absl::StatusOr<DispatchPolicies> MakeDispatchPolicies(const DispatchPoliciesOptions& options);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_POLICIES_DISPATCH_POLICIES_H_
