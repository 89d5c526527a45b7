// Where a server writes down what its sessions do.
#ifndef WARPLINE_SERVER_GPU_SERVER_SESSION_SERVER_BOOKS_H_
#define WARPLINE_SERVER_GPU_SERVER_SESSION_SERVER_BOOKS_H_

#include "audit/audit_log.h"
#include "common/log/keyed_log_budget.h"
#include "server/hostlink/handover/counters.h"

namespace warpline::server {

// Outlives the sessions. Thread-safe, as its parts are.
struct ServerBooks {
  ServerCounters counters = ServerCounters();
  KeyedLogBudget log;                      // Lines of the kinds of server_log.h.
  audit::AuditLog* const audit = nullptr;  // Borrowed. Null where nothing is recorded.
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_SESSION_SERVER_BOOKS_H_
