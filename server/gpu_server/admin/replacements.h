// Requests of the operator about sessions, such as to replace their workers. Each request goes
// through its sessions one after another, so that new workers are not all started at once. The
// caller comes back to see how far it is.
#ifndef WARPLINE_SERVER_GPU_SERVER_ADMIN_REPLACEMENTS_H_
#define WARPLINE_SERVER_GPU_SERVER_ADMIN_REPLACEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "proto/admin.pb.h"
#include "server/gpu_server/session/session_host.h"

namespace warpline::server {

// Thread-safe. Blocks for nothing.
class Replacements {
 public:
  // `host` is borrowed; it outlives this object, which may end while replacements are under way.
  explicit Replacements(SessionHost* host) : host_(host) {}

  using Action = warpline_internal::ReplaceRequest::Action;
  // Starts one for these sessions; each waits up to `deadline` for what is in flight. Returns its
  // ticket. RESOURCE_EXHAUSTED when kMostKept are under way.
  // `resident_bytes` is that of LIMIT, and `reason` that of REVOKE.
  absl::StatusOr<uint64_t> Start(Action action, std::vector<uint64_t> sessions,
                                 absl::Duration deadline, uint64_t resident_bytes = 0,
                                 std::string reason = {});
  // Returns the outcome for at most `most` sessions after the first `after`, which the caller
  // knows. NOT_FOUND for an unknown one; finished ones are forgotten when others need their place.
  absl::StatusOr<warpline_internal::ReplaceReply> Look(
      uint64_t ticket, size_t after = 0, size_t most = std::numeric_limits<size_t>::max());

  static constexpr size_t kMostKept = 16;

 private:
  // Shared with callbacks under way.
  struct Job {
    Action action;
    std::vector<uint64_t> sessions;
    absl::Duration deadline;
    uint64_t resident_bytes;
    std::string reason;
    Mutex mu;
    warpline_internal::ReplaceReply reply ABSL_GUARDED_BY(mu);
  };

  static void Next(SessionHost* host, const std::shared_ptr<Job>& job, size_t index);
  static bool Done(Job* job);

  SessionHost* const host_;
  // Before those of jobs.
  Mutex mu_;
  uint64_t last_ticket_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, std::shared_ptr<Job>> jobs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace warpline::server

#endif  // WARPLINE_SERVER_GPU_SERVER_ADMIN_REPLACEMENTS_H_
