// Answers `warpline stat` and `warpline ps`.
#ifndef WARPLINE_SERVER_ADMIN_SERVICE_H_
#define WARPLINE_SERVER_ADMIN_SERVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/admin.pb.h"
#include "server/session_host.h"

namespace warpline {

// The gRPC method that AnswerStat() is behind.
inline constexpr char kStatMethod[] = "/warpline_internal.Admin/Stat";

// A serialized StatReply. PERMISSION_DENIED for peers of other hosts: the answer names what tenants
// run. Thread-safe.
absl::StatusOr<std::string> AnswerStat(SessionHost* host, const std::string& server_name,
                                       const std::string& peer);

}  // namespace warpline

#endif  // WARPLINE_SERVER_ADMIN_SERVICE_H_
