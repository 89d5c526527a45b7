// Answers `warpline stat`, `ps` and `replace`, and gives `warpline run` leases of this server's
// own.
//
// Who administers the server asks at a listener of their own (admin_socket.h), and may know and do
// everything. At the addresses where clients come, whoever asks is no operator, wherever from.
#ifndef WARPLINE_SERVER_GPU_SERVER_ADMIN_ADMIN_SERVICE_H_
#define WARPLINE_SERVER_GPU_SERVER_ADMIN_ADMIN_SERVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/admin.pb.h"
#include "server/gpu_server/admin/replacements.h"
#include "server/gpu_server/leases/lease_book.h"
#include "server/gpu_server/session/session_host.h"
#include "transport/unary_methods.h"

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

// Admin/OpenLease, RenewLease and CloseLease, which are Scheduler/Acquire, Renew and Release of
// proto/scheduler.proto for a server without a scheduler. Who may open a session may have a lease.
// Both are borrowed.
void AddLeaseMethods(SessionHost* host, LeaseBook* book, UnaryMethods* methods);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_ADMIN_ADMIN_SERVICE_H_
