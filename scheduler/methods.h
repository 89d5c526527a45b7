// The scheduler's gRPC methods: bytes in, bytes out.
#ifndef WARPLINE_SCHEDULER_METHODS_H_
#define WARPLINE_SCHEDULER_METHODS_H_

#include <string>

#include "audit/audit_log.h"
#include "scheduler/role.h"
#include "transport/unary_methods.h"

namespace warpline::scheduler {

// Serves all of service Scheduler in proto/scheduler.proto, and Admin/Stat. `role` is
// borrowed; `name` is what `warpline ps` shows for it. What operators change is recorded in
// `audit`, which is borrowed, or null.
UnaryMethods SchedulerMethods(Role* role, const std::string& name, audit::AuditLog* audit);

// Servers' reports, what is asked for leases, and everything else, each in a lane of its own: a
// flood of renewals does not delay the reports, without which servers would count as lost.
UnaryMethodLanes SchedulerLanes(const UnaryMethods& methods);

}  // namespace warpline::scheduler

#endif  // WARPLINE_SCHEDULER_METHODS_H_
