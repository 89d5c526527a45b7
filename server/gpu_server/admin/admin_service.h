// Answers `warpline stat`, `ps` and `replace`.
//
// The operator asks at a listener of their own (admin_socket.h), and may know and do everything.
// A caller at the addresses where clients come is no operator, wherever the call comes from.
#ifndef WARPLINE_SERVER_GPU_SERVER_ADMIN_ADMIN_SERVICE_H_
#define WARPLINE_SERVER_GPU_SERVER_ADMIN_ADMIN_SERVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/admin.pb.h"
#include "server/gpu_server/admin/replacements.h"
#include "server/gpu_server/leases/lease_book.h"
#include "server/gpu_server/session/session_host.h"

namespace warpline::server {

// The gRPC method that AnswerStat() is behind.
inline constexpr char kStatMethod[] = "/warpline_internal.Admin/Stat";

// A serialized StatReply about everything to a serialized StatRequest: for the operator. Sessions
// are told in parts, as the request asks; RESOURCE_EXHAUSTED for a caller that knows no parts, if
// they are too many for it. Thread-safe.
absl::StatusOr<std::string> AnswerStat(SessionHost* host, const std::string& server_name,
                                       const std::string& request);

// A serialized StatReply to a serialized StatRequest of a client: the sessions of the tenant whose
// token it shows, and nothing else. Of a lease that this server gave out itself, the tenant is the
// lease. PERMISSION_DENIED, with what to do, without a token; errors as LeaseBook::Show() and
// AnswerStat().
// Thread-safe.
absl::StatusOr<std::string> AnswerClientStat(SessionHost* host, const LeaseBook& leases,
                                             const std::string& server_name,
                                             const std::string& peer, const std::string& request);

// Answered with a serialized WhereReply, to everybody.
inline constexpr char kWhereMethod[] = "/warpline_internal.Admin/Where";

inline constexpr char kReplaceMethod[] = "/warpline_internal.Admin/Replace";

// Has other workers take over from those of one session or all, or says how far that is; a
// serialized ReplaceReply to a serialized ReplaceRequest: for the operator. INVALID_ARGUMENT,
// NOT_FOUND for an unknown session, and the errors of Replacements.
absl::StatusOr<std::string> AnswerReplace(SessionHost* host, Replacements* replacements,
                                          const std::string& request);

void FillSessionStat(const SessionSnapshot& from, warpline_internal::SessionStat* to);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_ADMIN_ADMIN_SERVICE_H_
