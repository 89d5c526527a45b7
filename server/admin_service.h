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

inline constexpr char kReplaceMethod[] = "/warpline_internal.Admin/Replace";

// Has other workers take over from those of one session or all; a serialized ReplaceReply to a
// serialized ReplaceRequest. Blocks. Errors as AnswerStat(), and NOT_FOUND.
absl::StatusOr<std::string> AnswerReplace(SessionHost* host, const std::string& peer,
                                          const std::string& request);

}  // namespace warpline

#endif  // WARPLINE_SERVER_ADMIN_SERVICE_H_
