// What is recorded of one session in the server's audit.
#ifndef WARPLINE_SERVER_GPU_SERVER_AUDIT_SESSION_AUDIT_H_
#define WARPLINE_SERVER_GPU_SERVER_AUDIT_SESSION_AUDIT_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "audit/audit_log.h"
#include "audit/record.h"
#include "common/crypto/content_hash.h"
#include "common/log/log_budget.h"
#include "lease/entitlement.h"
#include "server/hostlink/process/control_loop.h"

namespace warpline::server {

// Does nothing where there is no audit. Shared, since module images may still be hashed when the
// session is over.
class SessionAudit {
 public:
  // `log` is borrowed, or null where nothing is recorded.
  SessionAudit(audit::AuditLog* log, uint64_t session, std::string peer);

  void SetEntitlement(const Entitlement& entitlement) RUNS_ON(control_loop);

  struct Opening {
    std::string program;
    uint64_t client_pid = 0;
    int worker_pid = 0;
    std::string devices;
    uint64_t quota_bytes = 0;
  };
  void Opened(const Opening& opening) RUNS_ON(control_loop);
  // `neighbour_pointers` is the worker's word (Usage::kNeighbourPointers).
  void Closed(const std::string& reason, uint64_t commands, uint64_t neighbour_pointers)
      RUNS_ON(control_loop);
  void Refused(const std::string& reason) RUNS_ON(control_loop);
  void Faulted(const std::string& reason) RUNS_ON(control_loop);
  // For more urgent work, of this tenant.
  void Killed(const std::string& reason, const std::string& urgent) RUNS_ON(control_loop);
  // The session's lease was ended; recorded once.
  void Revoked(const std::string& reason) RUNS_ON(control_loop);

  // The hash, or why there is none, is the server's own where `from` is "cache" or "client", and
  // the worker's word where it is "worker". An image is recorded once.
  void ModuleLoaded(const absl::StatusOr<ContentHash>& hash, uint64_t bytes, const char* from)
      RUNS_ON(control_loop);
  // `event` is kMemoryShared or kMemoryOpened. Of the token only a hash is recorded.
  void Shared(audit::Event event, const std::string& token, uint64_t bytes,
              const std::string& device) RUNS_ON(control_loop);
  // `event` is kWorkerDied, kWorkerKilled, kWorkerReplaced or kWorkerSuspended.
  void Worker(audit::Event event, const std::string& reason, int pid) RUNS_ON(control_loop);

 private:
  audit::Record NewRecord(audit::Event event) const RUNS_ON(control_loop);
  // Adds a record of which a session may have only so many. False where it was left out.
  bool AddBounded(size_t kind, audit::Record record) RUNS_ON(control_loop);

  audit::AuditLog* const log_;
  const uint64_t session_;
  const std::string peer_;
  LogBudget own_;
  // Those that were recorded.
  std::set<ContentHash> modules_ ABSL_GUARDED_BY(control_loop);
  uint64_t repeated_modules_ ABSL_GUARDED_BY(control_loop) = 0;
  std::string tenant_ ABSL_GUARDED_BY(control_loop);
  std::string lease_ ABSL_GUARDED_BY(control_loop);
  bool opened_ ABSL_GUARDED_BY(control_loop) = false;
  bool revoked_ ABSL_GUARDED_BY(control_loop) = false;
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_AUDIT_SESSION_AUDIT_H_
