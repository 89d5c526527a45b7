// The scheduler's gRPC methods: bytes in, bytes out.
#ifndef WARPLINE_SCHEDULER_METHODS_H_
#define WARPLINE_SCHEDULER_METHODS_H_

#include <string>

#include "audit/audit_log.h"
#include "scheduler/known_credentials.h"
#include "scheduler/role.h"
#include "transport/unary_methods.h"

namespace warpline::scheduler {

// Serves the services Scheduler and Leases (proto/scheduler.proto, leases.proto), and Admin/Stat.
// `role` is borrowed; `name` is what `warpline ps` shows for it. Changes by operators are recorded
// in `audit`, which is borrowed, or null. Credentials that are served are noted in `known`, which
// is borrowed, too.
UnaryMethods SchedulerMethods(Role* role, const std::string& name, audit::AuditLog* audit,
                              KnownCredentials* known);

// Servers' reports, what is asked for leases, and everything else, each in a queue of its own: a
// flood of renewals does not delay the reports, without which servers would count as lost. In each
// queue whoever has a credential of `known`, which is borrowed, has turns and room of its own, and
// all others of a peer share theirs. Requests that are too large for their method are refused.
UnaryMethodQueues SchedulerQueues(const UnaryMethods& methods, const KnownCredentials* known);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_METHODS_H_
