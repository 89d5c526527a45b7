// Answers `warpline stat` and `warpline ps`, and gives `warpline run` leases of this server's own.
#ifndef WARPLINE_SERVER_ADMIN_ADMIN_SERVICE_H_
#define WARPLINE_SERVER_ADMIN_ADMIN_SERVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/admin.pb.h"
#include "server/admin/replacements.h"
#include "server/leases/lease_book.h"
#include "server/session/session_host.h"
#include "transport/unary_methods.h"

namespace warpline::server {

// The gRPC method that AnswerStat() is behind.
inline constexpr char kStatMethod[] = "/warpline_internal.Admin/Stat";

// A serialized StatReply. PERMISSION_DENIED for peers of other hosts: the answer names what tenants
// run. Thread-safe.
absl::StatusOr<std::string> AnswerStat(SessionHost* host, const std::string& server_name,
                                       const std::string& peer);

inline constexpr char kReplaceMethod[] = "/warpline_internal.Admin/Replace";

// Has other workers take over from those of one session or all, or says how far that is; a
// serialized ReplaceReply to a serialized ReplaceRequest. Errors as AnswerStat(), and those of
// Replacements.
absl::StatusOr<std::string> AnswerReplace(SessionHost* host, Replacements* replacements,
                                          const std::string& peer, const std::string& request);

void FillSessionStat(const SessionSnapshot& from, warpline_internal::SessionStat* to);

// Admin/OpenLease, RenewLease and CloseLease, which are Scheduler/Acquire, Renew and Release of
// proto/scheduler.proto for a server without a scheduler. Who may open a session may have a lease.
// Both are borrowed.
void AddLeaseMethods(SessionHost* host, LeaseBook* book, UnaryMethods* methods);

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_ADMIN_ADMIN_SERVICE_H_
