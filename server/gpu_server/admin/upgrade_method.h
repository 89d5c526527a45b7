// Answers `warpline server upgrade`.
#ifndef WARPLINE_SERVER_GPU_SERVER_ADMIN_UPGRADE_METHOD_H_
#define WARPLINE_SERVER_GPU_SERVER_ADMIN_UPGRADE_METHOD_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "audit/record.h"
#include "server/gpu_server/upgrade/parent_link.h"

namespace warpline::server {

inline constexpr char kUpgradeMethod[] = "/warpline_internal.Admin/Upgrade";

// A serialized UpgradeReply to a serialized UpgradeRequest: for the operator. FAILED_PRECONDITION
// where `parent` is null: the server was not started so that it can be upgraded. INVALID_ARGUMENT
// for what is no request. Thread-safe.
absl::StatusOr<std::string> AnswerUpgrade(ParentLink* parent, const std::string& request);

// Returns the record of such a request; none where it only asks how an upgrade is.
std::optional<audit::Record> DescribeUpgrade(const std::string& request);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_ADMIN_UPGRADE_METHOD_H_
