// Answers `warpline policy`.
#ifndef WARPLINE_SERVER_GPU_SERVER_POLICIES_POLICY_METHODS_H_
#define WARPLINE_SERVER_GPU_SERVER_POLICIES_POLICY_METHODS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "audit/record.h"
#include "server/gpu_server/policies/policy_book.h"

namespace warpline::server {

inline constexpr char kPolicyMethod[] = "/warpline_internal.Admin/Policy";

// A serialized PolicyReply, of how things are afterwards, to a serialized PolicyRequest: for the
// operator. Without a book, FAILED_PRECONDITION: dispatch is off. INVALID_ARGUMENT, and the errors
// of PolicyBook. Thread-safe.
absl::StatusOr<std::string> AnswerPolicy(PolicyBook* book, const std::string& request);

// How it is recorded; nothing for what only asks.
std::optional<audit::Record> DescribePolicy(const std::string& request);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_POLICIES_POLICY_METHODS_H_
